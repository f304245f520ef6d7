"""What a change of zones or tags changes in a deployed EKS stack: two recordings, compared by URN and inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.context import Context
from components.eks.stack import build
from fleet.loading.config import load
from gpu_ci.offline.recording import Recording
from tests.builders import cluster, config, pool, runner
from tests.components.recorded import build_alone, named

TAGS = {"owner": "ci", "cost-center": "1"}
ABC = [f"us-west-2{letter}" for letter in "abc"]
CACHES = {"work": {"storage": "ebs", "size": "20Gi", "namespaces": ["ci-work"]}}
TAG = "aws:autoscaling/tag:Tag"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"

KEYS = {"default": "a key"}


def deployed(tags: Mapping[str, str] = TAGS, **changes: Any) -> Recording:
    """A cluster with the pool t4, as an update records it: every id is known."""
    described = load(config(clusters={"usw2": cluster(**changes)}))

    def program() -> None:
        build("usw2", described.clusters["usw2"], described, Context("gpu-ci", "test", dict(tags)), KEYS)

    return build_alone(program, f"{tags} {changes}", preview=False)


def difference(before: Recording, after: Recording) -> tuple[set[str], set[str], set[str]]:
    """Names of the resources that are created, deleted, and updated."""
    one, other = (
        # The inputs of components are the arguments of the program.
        {each.urn: each for each in recording.resources if not each.type.startswith("gpu-ci:")}
        for recording in (before, after)
    )
    created, deleted = ({held[urn].name for urn in held.keys() - rest.keys()} for held, rest in ((other, one), (one, other)))
    changed = {one[urn].name for urn in one.keys() & other.keys() if plain(one[urn].inputs) != plain(other[urn].inputs)}
    return created, deleted, changed


def plain(inputs: Any) -> str:
    return json.dumps(inputs, sort_keys=True, default=str)


def of_zone(pool_name: str, zone: str) -> set[str]:
    """Names of a pool's node group in a zone and of its tags."""
    keys = ("owner", "cost-center", "autoscaling-options/scaledownunneededtime")
    return {f"usw2-{pool_name}-{zone}-nodes", *(f"usw2-{pool_name}-{zone}-tag-{key}" for key in keys)}


def test_a_zone_more_or_less_of_a_pool_adds_or_removes_its_group_and_resizes_the_others_in_place() -> None:
    before, after = (
        deployed(
            zones=ABC,
            pools={"more": pool(zones=more, nodes={"max": 4}), "less": pool(zones=less, nodes={"max": len(less)})},
            runners={"gpu-t4": runner(pool="more"), "less": runner(pool="less")},
        )
        for more, less in ((ABC[:2], ABC), (ABC, ABC[:2]))
    )
    created, deleted = of_zone("more", "us-west-2c"), of_zone("less", "us-west-2c")
    assert difference(before, after) == (created, deleted, {"usw2-more-us-west-2b-nodes"}), "none of the pool with less"
    old, new = (named(each, "usw2-more-us-west-2b-nodes", "aws:eks/nodeGroup:NodeGroup").inputs for each in (before, after))
    assert {key for key in old if old[key] != new[key]} == {"scalingConfig"}
    assert (old["scalingConfig"]["maxSize"], new["scalingConfig"]["maxSize"]) == (2, 1)


@pytest.mark.parametrize("gateways", ["one", "per-zone"])
def test_a_zone_more_of_the_cluster_adds_its_network_and_the_groups_there(gateways: str) -> None:
    same: dict[str, Any] = {
        "network": {"natGateways": gateways},
        "controlPlaneZones": ABC[:2],
        "pools": {"t4": pool(nodes={"max": 3})},
    }
    network = {f"usw2-network-{role}-us-west-2c" for role in ("public", "private")}
    if gateways == "per-zone":
        network.add("usw2-network-nat-us-west-2c")
    before, after = deployed(zones=ABC[:2], **same), deployed(zones=ABC, **same)
    # The endpoint of S3 learns the route table of the zone; the group of the first zone hands over one of its two nodes.
    changed = {"usw2-network-s3", "usw2-t4-us-west-2a-nodes"}
    assert difference(before, after) == (network | of_zone("t4", "us-west-2c"), set(), changed)
    assert difference(after, before) == (set(), network | of_zone("t4", "us-west-2c"), changed)


def test_nodes_may_leave_a_zone_of_the_control_plane() -> None:
    same: dict[str, Any] = {"controlPlaneZones": ABC[:2], "pools": {"t4": pool(nodes={"max": 1})}}
    created, deleted, changed = difference(deployed(zones=ABC[:2], **same), deployed(zones=ABC[1:2], **same))
    assert (created, deleted, changed) == (of_zone("t4", "us-west-2b"), of_zone("t4", "us-west-2a"), set())


def test_an_edited_tag_updates_tags_and_replaces_neither_nodes_nor_storage_classes() -> None:
    before, after = (deployed(tags, zones=ABC, caches=CACHES) for tags in (TAGS, TAGS | {"owner": "ml"}))
    created, deleted, changed = difference(before, after)
    assert not created
    assert not deleted
    resources = {each.name: each for each in after.resources if each.name in changed}
    assert {each.type for each in resources.values()} == {"pulumi:providers:aws", "eks:index:Cluster", LOG_GROUP, TAG}
    assert {each.name for each in resources.values() if each.type == TAG} == {
        f"usw2-{group}-tag-owner" for group in ("system", "t4-us-west-2a", "t4-us-west-2b")
    }
    (cluster_after,) = [each for each in resources.values() if each.type == "eks:index:Cluster"]
    cluster_before = named(before, cluster_after.name, cluster_after.type)
    assert {key for key in cluster_after.inputs if cluster_after.inputs[key] != cluster_before.inputs[key]} == {"tags"}


def test_a_new_tag_adds_one_tag_to_each_group() -> None:
    created, deleted, _ = difference(
        deployed(zones=ABC, caches=CACHES), deployed(TAGS | {"team": "ml"}, zones=ABC, caches=CACHES)
    )
    assert created == {f"usw2-{group}-tag-team" for group in ("system", "t4-us-west-2a", "t4-us-west-2b")}
    assert not deleted
