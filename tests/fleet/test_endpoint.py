"""Who reaches an API server: the same rules for every provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.settings.endpoint import Endpoint
from tests.builders import cluster, config, oke_cluster
from tests.cases import cases


def read(**settings: Any) -> Endpoint:
    """The endpoint as a stack file gives it."""
    return Endpoint.model_validate_json(json.dumps(settings))


@cases(
    "settings",
    [
        {"publicCidrs": ["203.0.113.0/24", "52.94.76.0/22"]},
        {"publicCidrs": ["9.0.0.0/8"]},
        {"private": True, "reachableFrom": "vpn"},
        {"private": True, "reachableFrom": "vpc-agent", "privateCidrs": ["10.0.0.0/8", "fd00::/20"]},
    ],
)
def test_one_way_in_is_enough(settings: dict[str, Any]) -> None:
    assert read(**settings).model_dump(mode="json", by_alias=True, exclude_unset=True) == settings


@cases(
    ("settings", "told"),
    [
        ({}, "give either publicCidrs with your networks or private: true"),
        ({"publicCidrs": []}, "give either publicCidrs with your networks or private: true"),
        ({"publicCidrs": ["203.0.113.0/24"], "private": True}, "give either publicCidrs with your networks or private: true"),
        ({"private": True}, "a private endpoint needs reachableFrom (vpc-agent or vpn), or no deployment can reach it"),
        (
            {"publicCidrs": ["203.0.113.0/24"], "reachableFrom": "vpn"},
            "reachableFrom belongs to a private endpoint; remove it or set private: true",
        ),
        (
            {"publicCidrs": ["203.0.113.0/24"], "privateCidrs": ["10.0.0.0/8"]},
            "privateCidrs belongs to a private endpoint; remove it or set private: true",
        ),
    ],
)
def test_no_way_in_or_two_of_them_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(**settings)
    assert [error["msg"] for error in caught.value.errors()] == [told]


@cases("cidr", ["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/7", "::/0", "2000::/3"])
def test_the_world_is_not_let_in(cidr: str) -> None:
    with pytest.raises(ValidationError, match="the API server would be open to the world; list your own networks"):
        read(publicCidrs=[cidr])


@cases("cidr", ["10.1.0.0/16", "172.16.0.0/12", "192.168.1.0/24", "2600:1f14::/36"])
def test_a_public_endpoint_is_reached_from_public_ipv4_networks(cidr: str) -> None:
    with pytest.raises(ValidationError, match="a public endpoint is reached from public IPv4 networks; list those"):
        read(publicCidrs=[cidr])


@pytest.mark.parametrize("held", [cluster, oke_cluster])
def test_every_provider_has_these_rules(held: Any) -> None:
    with pytest.raises(FleetError) as caught:
        load(config(clusters={"one": held(endpoint={"publicCidrs": ["0.0.0.0/0"]})}))
    assert [problem.where for problem in caught.value.problems] == ["gpu-ci:clusters.one.endpoint.publicCidrs.0"]
