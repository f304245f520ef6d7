"""What a plan says of capacity blocks and EFA, and the NodeConfig that nodeadm reads."""

from __future__ import annotations

import email
import json
from datetime import date
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter

from fleet.facts.yaml_text import kubernetes_documents
from fleet.loading.config import load
from fleet.providers.eks.node_config import NodeConfig, user_data
from fleet.providers.fleet import Fleet
from tests.builders import NODE_CONFIG, cluster, config, pool, reference

BLOCK = {"id": "cr-01234567", "zone": "us-west-2a", "count": 2}


def fleet(**changes: Any) -> Fleet:
    """A fleet with one pool of p5en.48xlarge and these changes of the pool."""
    return load(config(clusters={"usw2": cluster(pools={"t4": pool(instanceTypes=["p5en.48xlarge"], **changes)}, runners={})}))


def block(**reservation: Any) -> Fleet:
    return fleet(capacity="capacity-block", reservation=BLOCK | reservation)


def said_on(day: str, held: Fleet) -> list[str]:
    return [remark for remark in held.clusters["usw2"].remarks_on(date.fromisoformat(day)) if remark.startswith("pool t4")]


# -- remarks -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_capacity_block_is_a_remark_before_and_after() -> None:
    held = block(endDate="2026-12-19")
    assert said_on("2026-12-19", held) == [
        "pool t4: its capacity block ends on 2026-12-19; EKS removes its nodes 40 minutes before, and afterwards no node starts"
    ]
    assert said_on("2026-12-20", held) == [
        "pool t4: its capacity block ended on 2026-12-19, and no node starts; change capacity and reservation"
    ]


def test_the_end_of_a_reservation_is_a_remark_and_one_without_end_has_none() -> None:
    reserved = fleet(capacity="reserved", reservation=BLOCK | {"endDate": "2026-12-19"})
    assert said_on("2026-11-22", reserved) == ["pool t4: its reservation ends on 2026-12-19, and afterwards no node starts"]
    assert said_on("2026-11-22", block()) == []


def test_a_plan_says_that_no_pod_gets_an_adapter_without_its_device_plugin() -> None:
    def remarks(held: Fleet) -> list[str]:
        return [remark for remark in held.clusters["usw2"].remarks if "vpc.amazonaws.com/efa" in remark]

    assert remarks(fleet(efaInterfaces=16)) == [
        "pool t4: no pod can request its EFA interfaces (vpc.amazonaws.com/efa) until you install AWS's EFA device plugin; "
        "gpu-ci does not install it"
    ]
    assert remarks(fleet()) == []


# -- nodeadm -----------------------------------------------------------------------------------------------------------


def node_config(settings: dict[str, Any]) -> NodeConfig:
    return TypeAdapter(NodeConfig).validate_json(json.dumps(settings))


def document(settings: dict[str, Any]) -> Any:
    message: Any = email.message_from_string(user_data(node_config(settings)))
    (part,) = message.get_payload()
    (found,) = kubernetes_documents("user data", part.get_payload())
    return found.value


def test_every_field_reaches_nodeadm_and_what_is_left_out_is_not_written() -> None:
    spec = document(NODE_CONFIG)["spec"]
    spelled = {"shutdownGracePeriod": "5m0s", "shutdownGracePeriodCriticalPods": "0m30s"}
    assert spec == NODE_CONFIG | {"kubelet": {"config": NODE_CONFIG["kubelet"]["config"] | spelled}}
    assert document({"featureGates": {}})["spec"] == {"featureGates": {"FastImagePull": False}}


@pytest.mark.parametrize("settings", [NODE_CONFIG, *({key: value} for key, value in NODE_CONFIG.items())])
def test_nodeadms_schema_accepts_the_document(settings: dict[str, Any]) -> None:
    schema = json.loads(reference("starts/nodeconfig_v1alpha1.json").read_text(encoding="utf-8"))
    jsonschema.validate(document(settings), schema)
