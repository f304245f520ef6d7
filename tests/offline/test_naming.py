"""The names of clusters, pools and sets in the keys of messages come from the stack file."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.loading.home import ROOT
from gpu_ci.offline.naming import key_of
from gpu_ci.offline.plan import make_plan

POOL = "clusters.<cluster>.pools.<pool>.nodes.max"
RUNNER = "clusters.<cluster>.runners.<runner>.scale.max"
FLEET: dict[str, Any] = {
    "gpu-ci:clusters": {
        "eu": {"pools": {"t4": {}, "t4-spot": {}}, "runners": {"gpu": {}}},
        "eu-west": {"pools": {"a10g": {}}, "runners": {}},
    }
}
ONE = {"gpu-ci:clusters": {"eu": FLEET["gpu-ci:clusters"]["eu"]}}


@pytest.mark.parametrize(
    ("key", "resource", "named"),
    [
        (POOL, "eu-t4-spot-eu-west-1a-nodes", "clusters.eu.pools.t4-spot.nodes.max"),
        (POOL, "eu-t4-launch", "clusters.eu.pools.t4.nodes.max"),
        (POOL, "eu-west-a10g-launch", "clusters.eu-west.pools.a10g.nodes.max"),
        (RUNNER, "eu-gpu-chart", "clusters.eu.runners.gpu.scale.max"),
        (RUNNER, "eu-device-plugin-chart", "clusters.eu"),
        (POOL, "eu-t4spot-launch", "clusters.eu"),
        ("clusters.<cluster>.endpoint.publicCidrs", "eu-west-control-plane", "clusters.eu-west.endpoint.publicCidrs"),
        (POOL, "", POOL),
        (POOL, "other-t4-launch", POOL),
    ],
)
def test_a_key_gets_the_names_that_the_resource_begins_with(key: str, resource: str, named: str) -> None:
    assert key_of(key, resource, FLEET) == named


def test_a_renamed_thing_has_its_new_name_in_a_key() -> None:
    renamed = {"gpu-ci:clusters": {"ireland": {"was": "eu", "pools": {"cheap": {"was": "t4-spot"}, "t4": {}}}}}
    assert key_of(POOL, "eu-t4-spot-eu-west-1a-nodes", renamed) == "clusters.ireland.pools.cheap.nodes.max"
    assert key_of(POOL, "eu-t4-launch", renamed) == "clusters.ireland.pools.t4.nodes.max"


def test_a_verdict_on_a_stack_of_one_cluster_is_about_that_cluster() -> None:
    assert key_of("clusters.<cluster>.system.nodes.min", "", ONE) == "clusters.eu.system.nodes.min"


def test_a_plan_names_pool_key_and_the_file_that_was_read(tmp_path: Any) -> None:
    path = tmp_path / "other.yaml"
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    assert "capacity: on-demand\n          role: fallback" in text
    path.write_text(
        text.replace("capacity: on-demand\n          role: fallback", "capacity: on-demand\n          role: burst", 1)
    )
    found = [each.message for each in make_plan("staging", ROOT, path).blocked() if each.rule == "spot-required-nonprod"]
    assert found
    key = f"write release as {path}: gpu-ci:clusters.usw2.pools.t4-ondemand.role"
    assert all(key in message for message in found), found
