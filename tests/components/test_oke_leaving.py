"""Node pools of an earlier generation on OKE wait for their jobs, beside the new ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from components.context import Context
from components.generations import Generations
from components.oci.stack import build
from fleet.facts.scheduling import LEAVING, MOST_NODES_TAG, STORAGE_TAG
from fleet.loading.config import load
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Answer, Recording
from tests.builders import SAN_JOSE, config, oke_cluster, oke_pool
from tests.components.oke import ADDON, ANSWERS, DOMAINS, NODE_POOL, TAGS
from tests.components.recorded import ALONE, of_type

PATCH = "kubernetes:core/v1:NodePatch"
OLD = "sjc-a10-nodes"
FIRST = {f"{OLD}-0123abc": 2, "sjc-system-nodes-0123abc": 2}
"""Nodes by the name of a pool in OCI."""
SHAPE: dict[str, Any] = {"instanceTypes": ["VM.GPU.A10.2"]}
RESERVED: dict[str, Any] = {
    "capacity": "reserved",
    "reservation": {"id": "ocid1.capacityreservation.oc1.sjc.example", "zone": SAN_JOSE, "count": 4},
}
EXISTING = {
    "id": "ocid1.cluster.oc1.sjc.example",
    "nodeSubnet": "ocid1.subnet.oc1.sjc.examplenodes",
    "nodeSecurityGroup": "ocid1.networksecuritygroup.oc1.sjc.examplenodes",
    "kubeconfig": "~/.kube/config",
    "context": "oke",
    "installed": [],
}


def ocid(name: str) -> str:
    return f"ocid1.nodepool.oc1..{name}"


def cloud(live: Mapping[str, int], marked: tuple[str, ...] = (), **changes: Any) -> dict[str, Answer]:
    """What OCI answers. The pools `marked` leave since an earlier update. `changes` are those of every pool."""

    def pools(asked: Mapping[str, Any]) -> dict[str, Any]:
        assert asked["clusterId"] == "ocid1.cluster.oc1..there", "a deleted cluster is not asked"
        return {"nodePools": [{**_pool(name, size, marked), **changes} for name, size in live.items()]}

    def clusters(asked: Mapping[str, Any]) -> dict[str, Any]:
        assert asked["name"] == "gpu-ci-test-sjc"
        there = [{"id": "ocid1.cluster.oc1..there", "state": "ACTIVE"}, {"id": "ocid1.cluster.oc1..gone", "state": "DELETED"}]
        return {"clusters": there if live else there[1:]}

    def nodes(asked: Mapping[str, Any]) -> dict[str, Any]:
        (name,) = [name for name in live if ocid(name) == asked["nodePoolId"]]
        active = [{"privateIp": f"10.0.0.{number}", "state": "ACTIVE"} for number in range(1, live[name])]
        return {"nodes": [*active, {"privateIp": "", "state": "CREATING"}]}

    return {
        **ANSWERS,
        "oci:ContainerEngine/getClusters:getClusters": clusters,
        "oci:ContainerEngine/getNodePools:getNodePools": pools,
        "oci:ContainerEngine/getNodePool:getNodePool": nodes,
    }


def _pool(name: str, size: int, marked: tuple[str, ...]) -> dict[str, Any]:
    label = re.fullmatch(r"sjc-([a-z0-9]+)-nodes.*", name)
    assert label
    return {
        "name": name,
        "id": ocid(name),
        "state": "ACTIVE",
        "compartmentId": "ocid1.compartment.oc1..example",
        "nodeShape": "VM.GPU.A10.1",
        "freeformTags": {**TAGS, MOST_NODES_TAG: "4", STORAGE_TAG: "9Mi"} | ({LEAVING.key: "true"} if name in marked else {}),
        "initialNodeLabels": [{"key": "gpu-ci/pool", "value": label[1]}],
        "nodeConfigDetails": [{"size": size}],
    }


def up(
    live: Mapping[str, int],
    first: dict[str, str],
    marked: tuple[str, ...] = (),
    answers: Mapping[str, Answer] | None = None,
    described: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[Recording, dict[str, str]]:
    """What an update declares, and what it records as first generations. `changes` are those of the pool a10, or of `cluster`."""
    whole = changes.pop("cluster", {})
    pools = whole.pop("pools", {"a10": oke_pool(**{"nodes": {"max": 4}, **changes})})
    fleet = load(config(clusters={"sjc": described or oke_cluster(**{"pools": pools, "runners": {}, **whole})}))
    generations = Generations(first)

    def program() -> None:
        context = Context("gpu-ci", "test", TAGS, generations)
        build("sjc", fleet.clusters["sjc"], fleet, context, {"default": pulumi.Output.secret("a key")})

    return record(program, ALONE, preview=False, answers=answers or cloud(live, marked)), generations.first


def node_pools(recording: Recording) -> dict[str, bool]:
    """The GPU node pools by logical name, and whether they leave."""
    made = [pool for pool in of_type(recording, NODE_POOL) if "system" not in pool.name]
    return {pool.name: LEAVING.key in pool.inputs["freeformTags"] for pool in made}


def cordoned(recording: Recording) -> list[str]:
    """The nodes that get no new pod, by their names in Kubernetes."""
    patches = of_type(recording, PATCH)
    assert all(patch.inputs["spec"] == {"unschedulable": True} for patch in patches)
    return [patch.inputs["metadata"]["name"] for patch in patches]


def ranges(recording: Recording) -> list[str]:
    """The pools of the autoscaler: least, most and OCID."""
    (addon,) = [addon for addon in of_type(recording, ADDON) if addon.inputs["addonName"] == "ClusterAutoscaler"]
    text: str = next(pair["value"] for pair in addon.inputs["configurations"] if pair["key"] == "nodes")
    return text.split(", ")


def warnings(recording: Recording) -> list[str]:
    return [message.text for message in recording.messages if message.severity == "warning"]


@pytest.fixture(scope="module")
def first() -> dict[str, str]:
    return up({}, {})[1]


def new(recording: Recording) -> str:
    """The one pool that does not leave."""
    (name,) = [name for name, leaves in node_pools(recording).items() if not leaves]
    return name


def test_the_first_generation_has_a_plain_name_and_a_stack_without_a_record_adopts_what_it_has(first: dict[str, str]) -> None:
    assert first.keys() == {OLD}
    for recorded in ({}, first):
        recording, again = up(FIRST, recorded)
        assert (node_pools(recording), again, warnings(recording), cordoned(recording)) == ({OLD: False}, first, [], [])
        assert ranges(recording) == [f"0:4:ocid1.nodepool.oc1..{OLD}-id"]


@pytest.mark.parametrize("edit", [SHAPE, RESERVED])
def test_an_edit_that_would_end_nodes_declares_a_new_pool_beside_the_old(first: dict[str, str], edit: dict[str, Any]) -> None:
    recording, again = up(FIRST, first, **edit)
    assert again == first, "the name stays that of the first generation"
    assert node_pools(recording)[OLD]
    assert re.fullmatch(rf"{OLD}-[0-9a-f]{{6}}", new(recording))
    assert warnings(recording) == [
        f"{OLD} is leaving and has 2 nodes: no node ends now; a later pulumi up deletes it once it is empty"
    ]


def test_what_stays_is_as_it_was_takes_no_pod_and_starts_no_node(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, **SHAPE)
    (old,) = [pool for pool in of_type(recording, NODE_POOL) if pool.name == OLD]
    assert {"clusterId", "kubernetesVersion", "nodeConfigDetails", "nodeMetadata", "nodeShape", "nodeSourceDetails"} <= {
        *old.ignore_changes
    }
    assert "freeformTags" not in old.ignore_changes
    assert old.inputs["freeformTags"] == {**TAGS, MOST_NODES_TAG: "2", LEAVING.key: "true"}
    assert old.replace_on_changes == ()
    assert old.parent.endswith("::gpu-ci:index:OkeGpuPool::sjc-a10")
    assert cordoned(recording) == ["10.0.0.1"], "the other node is not in Kubernetes yet"
    assert {patch.parent for patch in of_type(recording, PATCH)} == {old.parent}
    assert ranges(recording) == [f"0:4:ocid1.nodepool.oc1..{new(recording)}-id", f"0:0:{ocid(f'{OLD}-0123abc')}"]
    (addon,) = [addon for addon in of_type(recording, ADDON) if addon.inputs["addonName"] == "ClusterAutoscaler"]
    assert addon.urn in old.dependencies, "the mark says that no node can come"


def test_a_pool_leaves_in_two_updates(first: dict[str, str]) -> None:
    empty = {f"{OLD}-0123abc": 0}
    recording, _ = up(empty, first, **SHAPE)
    assert node_pools(recording)[OLD], "the autoscaler may still start a node until it knows better"
    assert warnings(recording) == [f"{OLD} is leaving and has 0 nodes: the next pulumi up deletes it"]
    made = new(recording)
    busy, _ = up(FIRST | {f"{made}-0123abc": 1}, first, (f"{OLD}-0123abc",), **SHAPE)
    assert node_pools(busy) == {made: False, OLD: True}
    after, _ = up(empty | {f"{made}-0123abc": 1}, first, (f"{OLD}-0123abc",), **SHAPE)
    assert (node_pools(after), warnings(after), cordoned(after)) == ({made: False}, [], [])
    assert len(ranges(after)) == 1


def test_an_edit_that_is_taken_back_finds_the_first_generation_again(first: dict[str, str]) -> None:
    made = new(up(FIRST, first, **SHAPE)[0])
    back, _ = up(FIRST | {f"{made}-0123abc": 2}, first, (f"{OLD}-0123abc",))
    assert node_pools(back) == {OLD: False, made: True}
    assert [patch.name for patch in of_type(back, PATCH)] == [f"{made}-10.0.0.1"], "the nodes of the first take pods again"


def test_the_node_pool_of_a_removed_pool_stays_below_a_component_of_its_name(first: dict[str, str]) -> None:
    recording, again = up(FIRST, first, cluster={"pools": {}})
    assert node_pools(recording) == {OLD: True}
    assert again == first
    back, _ = up(FIRST, again, (f"{OLD}-0123abc",), **SHAPE)
    assert node_pools(back) == {OLD: True, new(back): False}, "the pool comes back with another shape"
    assert up({}, first, cluster={"pools": {}})[1] == {}
    (old,) = [pool for pool in of_type(recording, NODE_POOL) if pool.name == OLD]
    assert old.parent.endswith("::gpu-ci:index:OkeGpuPool::sjc-a10")
    assert ranges(recording) == [f"0:0:{ocid(f'{OLD}-0123abc')}"], "the last pool keeps the autoscaler, or it would never shrink"


@pytest.mark.parametrize(
    "edit",
    [
        {"nodes": {"max": 3}},
        {"disk": "500Gi"},
        {"labels": {"example.com/team": "a"}},
        {"kubelet": {"podPidsLimit": 4096}},
    ],
)
def test_an_edit_that_ends_no_node_keeps_the_generation(first: dict[str, str], edit: dict[str, Any]) -> None:
    assert node_pools(up(FIRST, first, **edit)[0]) == {OLD: False}


def test_spot_ends_no_node_on_oke() -> None:
    old: dict[str, Any] = {"instanceTypes": ["VM.GPU3.1"]}
    recorded = up({}, {}, **old)[1]
    assert node_pools(up(FIRST, recorded, **old, capacity="spot")[0]) == {OLD: False}


def test_the_order_of_zones_means_nothing() -> None:
    whole = {"region": "us-ashburn-1", "zones": DOMAINS}
    recorded = up({}, {}, cluster={**whole})[1]
    assert node_pools(up({}, recorded, cluster=whole | {"zones": DOMAINS[::-1]})[0]) == {OLD: False}
    assert OLD not in node_pools(up({}, recorded, cluster=whole | {"zones": DOMAINS[1:]})[0])


def test_evict_declares_no_old_pool(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, cluster={"replaceNodes": "evict"}, **SHAPE)
    assert OLD not in node_pools(recording)
    assert (warnings(recording), cordoned(recording), len(ranges(recording))) == ([], [], 1)


@pytest.mark.parametrize(
    "foreign",
    [{"freeformTags": {"gpu-ci/stack": "other"}}, {"state": "DELETING"}, {"state": "DELETED"}, {"name": "made-by-hand"}],
)
def test_a_pool_of_another_stack_and_one_that_oci_deletes_are_left_alone(first: dict[str, str], foreign: dict[str, Any]) -> None:
    recording, _ = up(FIRST, first, answers=cloud(FIRST, **foreign), **SHAPE)
    assert node_pools(recording) == {new(recording): False}


def test_an_existing_cluster_is_asked_by_its_ocid(first: dict[str, str]) -> None:
    given = ("provider", "region", "zones", "compartment", "kubernetesVersion", "nodeImages")
    described = {key: value for key, value in oke_cluster().items() if key in given}
    described |= {"existing": EXISTING, "pools": {"a10": oke_pool(nodes={"max": 4}, **SHAPE)}, "runners": {}}
    answers = cloud(FIRST)
    asked: list[str] = []

    def pools(arguments: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(arguments["clusterId"])
        return {"nodePools": [_pool(name, size, ()) for name, size in FIRST.items()]}

    answers["oci:ContainerEngine/getNodePools:getNodePools"] = pools
    recording, _ = up(FIRST, first, answers=answers, described=described)
    assert asked == [EXISTING["id"]]
    assert node_pools(recording)[OLD]
    assert cordoned(recording) == ["10.0.0.1"]


def test_a_refusal_of_oci_is_one_error_that_names_the_right(first: dict[str, str]) -> None:
    def refuses(_: Mapping[str, Any]) -> dict[str, Any]:
        raise ValueError("404-NotAuthorizedOrNotFound")

    with pytest.raises(pulumi.RunError) as error:
        up(FIRST, first, answers=cloud(FIRST) | {"oci:ContainerEngine/getNodePools:getNodePools": refuses})
    assert str(error.value) == (
        "gpu-ci-test-sjc: OCI does not list its node pools: 404-NotAuthorizedOrNotFound; a preview and an update need the right "
        "to read cluster-family in ocid1.compartment.oc1..example"
    )
