"""NUMA nodes: which pods kubelet admits, how many a node holds for certain, what the plan says."""

from __future__ import annotations

import itertools
import json
from datetime import date
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings, strategies as st
from pydantic import TypeAdapter

from fleet.facts import hardware
from fleet.facts.offer import allocatable
from fleet.facts.tables import rows
from fleet.jobs import JobRefusedError, gpu_job, place_job
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove import room
from fleet.prove.pending import explain
from fleet.prove.placement import Placement, PlacementError, place, pool_hosts
from fleet.prove.pod import pod_of
from fleet.prove.remarks import fragmented
from fleet.prove.room import refusals
from fleet.prove.topology import STRICT, Aligned, Layout, Nodes, aligned, empty, layout
from fleet.providers.fleet import Fleet
from fleet.settings.kubelet import DescribedKubelet
from fleet.settings.runner import PodRunner
from tests.builders import (
    cluster,
    config,
    existing_context,
    oke_cluster,
    oke_pool,
    oke_runner,
    pool,
    runner,
    talos_cluster,
    talos_pool,
)
from tests.cases import cases
from tests.examples import examples
from tests.fleet.topology_manager import Container, Kubelet

POLICIES = ("none", "best-effort", *STRICT)
many = settings(max_examples=examples(200), database=None)


# -- the table of p4d --------------------------------------------------------------------------------------------------


@cases(
    ("gpus", "cpus", "best_effort", "restricted", "single"),
    [
        (4, 44, True, True, True),
        (4, 48, True, True, True),
        (4, 50, True, False, False),
        (1, 50, True, False, False),
        (8, 88, True, True, False),
        (8, 44, True, False, False),
    ],
)
def test_a_p4d_admits_what_kubelet_admits(gpus: int, cpus: int, best_effort: bool, restricted: bool, single: bool) -> None:
    nodes = empty(hardware.machine("p4d.24xlarge"), 8)
    assert nodes is not None
    assert nodes.free == Layout((47, 48), (4, 4)), "kubelet keeps one CPU"
    found = [nodes.admits(Aligned(gpus, cpus), policy) for policy in POLICIES]
    assert found == [True, best_effort, restricted, single]


def test_one_gpu_on_each_node_of_a_p4d_keeps_four_off() -> None:
    nodes = Nodes(Layout((48, 48), (4, 4)), Layout((47, 48), (3, 3)))
    assert [nodes.admits(Aligned(4, 0), policy) for policy in POLICIES] == [True, True, False, False]


# -- against a simulation of kubelet -----------------------------------------------------------------------------------


@st.composite
def machines(draw: st.DrawFn, most: int = 4) -> tuple[Layout, Layout]:
    """What NUMA nodes have, and what is free beside pods that came earlier."""
    count = draw(st.integers(1, most))
    cpus = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    gpus = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count).filter(any))
    free = [[draw(st.integers(0, each)) for each in items] for items in (cpus, gpus)]
    return Layout(tuple(cpus), tuple(gpus)), Layout(tuple(free[0]), tuple(free[1]))


def kubelet(total: Layout, free: Layout, policy: str, scope: str = "container", seed: int = 0) -> Kubelet:
    """The same machine for the simulation. The rest belongs to an earlier pod."""
    count = len(total.cpus)
    places = [[node for node, many_ in enumerate(items) for _ in range(many_)] for items in (total.cpus, total.gpus)]
    made = Kubelet(count, places[0], places[1], policy, scope, random=Random(seed))  # noqa: S311 - no secret
    for node in range(count):
        for held, items, left in (
            (made.used_cpus, made.cpus, free.cpus[node]),
            (made.used_devices, made.devices, free.gpus[node]),
        ):
            here = [item for item, place in enumerate(items) if place == node]
            held.update(dict.fromkeys(here[: len(here) - left], "earlier"))
    return made


_PODS = st.builds(Aligned, st.integers(1, 8), st.integers(0, 10))


def _agrees(machine: tuple[Layout, Layout], pod: Aligned, policy: str, scope: str) -> None:
    total, free = machine
    enough = sum(free.gpus) >= pod.gpus and sum(free.cpus) >= pod.cpus
    found = kubelet(total, free, policy, scope).admit("new", [Container(pod.gpus, pod.cpus)])
    assert (Nodes(total, free).admits(pod, policy) and enough) == found


@many
@given(machines(), _PODS, st.sampled_from(POLICIES), st.sampled_from(("container", "pod")))
@example((Layout((48, 48), (4, 4)), Layout((47, 48), (3, 3))), Aligned(4, 44), "single-numa-node", "pod")
def test_a_pod_is_admitted_if_kubelet_admits_it(machine: tuple[Layout, Layout], pod: Aligned, policy: str, scope: str) -> None:
    _agrees(machine, pod, policy, scope)


@settings(max_examples=examples(25), database=None)
@given(machines(most=8), _PODS, st.sampled_from(STRICT), st.sampled_from(("container", "pod")))
def test_the_same_holds_for_eight_numa_nodes(machine: tuple[Layout, Layout], pod: Aligned, policy: str, scope: str) -> None:
    _agrees(machine, pod, policy, scope)


@many
@given(machines(), _PODS, st.sampled_from(STRICT), st.lists(st.integers(0, 9), max_size=12), st.integers(0, 99))
@example((Layout((5, 5, 5, 5), (2, 2, 2, 2)), Layout((5, 5, 5, 5), (2, 2, 1, 1))), Aligned(3, 0), "restricted", [], 0)
def test_the_certain_number_of_pods_fits_in_any_order_of_coming_and_going(
    machine: tuple[Layout, Layout], pod: Aligned, policy: str, steps: list[int], seed: int
) -> None:
    total, free = machine
    nodes = Nodes(total, free)
    certain = nodes.certain(pod, policy)
    simulated = kubelet(total, free, policy, seed=seed)
    running: list[str] = []
    for number, step in enumerate([*steps, *[9] * (certain + 1)]):
        if step < 4 and running:
            simulated.remove(running.pop(step % len(running)))
        elif simulated.admit(f"pod-{number}", [Container(pod.gpus, pod.cpus)]):
            running.append(f"pod-{number}")
        else:
            assert len(running) >= certain, "kubelet rejects a pod that the plan counts"
    if set(nodes.sizes(pod).values()) == {1}:
        assert len(running) == certain, "on one NUMA node each, the number is exact"


@many
@given(machines(most=3), _PODS, _PODS)
def test_the_number_of_blocking_pods_is_the_least(machine: tuple[Layout, Layout], pod: Aligned, other: Aligned) -> None:
    total, free = machine
    nodes = Nodes(total, free)
    assume({*nodes.sizes(pod).values(), *nodes.sizes(other).values()} == {1})
    blocking = []
    for counts in itertools.product(range(5), repeat=len(total.cpus)):
        cpus = tuple(left - count * other.cpus for left, count in zip(free.cpus, counts, strict=True))
        gpus = tuple(left - count * other.gpus for left, count in zip(free.gpus, counts, strict=True))
        if min(*cpus, *gpus) >= 0 and not kubelet(total, Layout(cpus, gpus), STRICT[1]).admit(
            "new", [Container(pod.gpus, pod.cpus)]
        ):
            blocking.append(sum(counts))
    assert nodes.blocked_by(pod, other) == min(blocking, default=None)


# -- what of a pod counts ----------------------------------------------------------------------------------------------


@cases(
    ("cpu", "memory", "manager", "cpus"),
    [
        ((16, 16), ("64Gi", "64Gi"), "static", 16),
        ((16, 32), ("64Gi", "64Gi"), "static", 0),
        ((16, 16), ("64Gi", "96Gi"), "static", 0),
        ((15.5, 15.5), ("64Gi", "64Gi"), "static", 0),
        ((16, 16), ("64Gi", "64Gi"), "none", 0),
    ],
)
def test_cpus_count_only_for_guaranteed_pods_with_whole_cpus_under_the_static_manager(
    cpu: tuple[float, float], memory: tuple[str, str], manager: str, cpus: int
) -> None:
    spans = {name: dict(zip(("request", "limit"), span, strict=True)) for name, span in (("cpu", cpu), ("memory", memory))}
    asked = TypeAdapter(PodRunner).validate_json(json.dumps(runner(**spans)))
    held = {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": manager}
    assert aligned(asked, DescribedKubelet.model_validate_json(json.dumps(held))) == Aligned(1, cpus)


def test_every_node_reserves_a_cpu_without_which_the_static_manager_does_not_start() -> None:
    for machine in hardware.machines():
        assert allocatable(machine, 0).cpu < machine.vcpus * 1000, machine.name


# -- the plan ----------------------------------------------------------------------------------------------------------

P4D = "p4d.24xlarge"


def sized(gpus: int, cpus: float, memory: str = "64Gi") -> dict[str, Any]:
    """A Guaranteed runner."""
    return runner(gpus=gpus, cpu={"request": cpus, "limit": cpus}, memory={"request": memory, "limit": memory})


def numa_pool(policy: str, machine: str, **changes: Any) -> dict[str, Any]:
    """A pool of one type whose kubelet has the static CPU manager and this policy."""
    held = {"cpuManagerPolicy": "static", "topologyManagerPolicy": policy}
    return pool(instanceTypes=[machine], disk="400Gi", nodeConfig={"kubelet": {"config": held}}) | changes


def stack(policy: str, machine: str, runners: dict[str, Any], **changes: Any) -> Fleet:
    """A fleet of one such pool."""
    return load(config(clusters={"usw2": cluster(pools={"t4": numa_pool(policy, machine)}, runners=runners) | changes}))


def one(policy: str, machine: str, asked: dict[str, Any]) -> Placement:
    """The placement of one runner set."""
    (placed,) = place(stack(policy, machine, {"gpu": asked}))
    return placed


@pytest.mark.parametrize(
    ("policy", "gpus", "cpus", "why", "fix"),
    [
        (
            "restricted",
            4,
            50,
            "4 GPUs need 1 node and 50 exclusive CPUs need 2 nodes, and the policy wants the same number for both",
            "ask for 48 CPUs or fewer or set topologyManagerPolicy best-effort",
        ),
        (
            "restricted",
            8,
            44,
            "8 GPUs need 2 nodes and 44 exclusive CPUs need 1 node, and the policy wants the same number for both",
            "ask for 49 CPUs or more or set topologyManagerPolicy best-effort",
        ),
        (
            "single-numa-node",
            8,
            88,
            "8 GPUs need 2 nodes and 88 exclusive CPUs need 2 nodes, and the policy allows one",
            "set topologyManagerPolicy restricted",
        ),
    ],
)
def test_a_runner_that_no_numa_node_can_hold_cannot_be_placed(policy: str, gpus: int, cpus: int, why: str, fix: str) -> None:
    placed = one(policy, P4D, sized(gpus, cpus))
    head = f"is rejected by topologyManagerPolicy {policy} of {P4D} (TopologyAffinityError): its NUMA nodes have 4+4 GPUs and"
    assert placed.error == f"{head} 47+48 free CPUs, {why}; {fix}"
    assert (placed.worst.count, placed.worst.limited_by) == (0, "NUMA")
    with pytest.raises(PlacementError, match="TopologyAffinityError"):
        require(load(config()), [placed])


@pytest.mark.parametrize(("policy", "gpus", "cpus"), [("restricted", 4, 50), ("restricted", 8, 44), ("single-numa-node", 8, 88)])
def test_the_fix_that_the_error_names_works_and_one_cpu_less_of_it_does_not(policy: str, gpus: int, cpus: int) -> None:
    fix = one(policy, P4D, sized(gpus, cpus)).error.rpartition("; ")[2]
    looser = fix.rpartition(" ")[2]
    assert not one(looser, P4D, sized(gpus, cpus)).error
    if "CPUs" in fix:
        named = int(fix.split()[2])
        step = 1 if "fewer" in fix else -1
        assert not one(policy, P4D, sized(gpus, named)).error
        assert one(policy, P4D, sized(gpus, named + step)).error


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_the_other_policies_reject_no_runner(policy: str) -> None:
    assert [one(policy, P4D, sized(*asked)).worst.count for asked in ((4, 50), (8, 44), (8, 88))] == [1, 1, 1]


def test_a_runner_that_requests_less_than_its_limit_is_judged_by_its_gpus_alone() -> None:
    burst = runner(gpus=8, cpu={"request": 44, "limit": 88})
    assert not one("restricted", P4D, burst).error
    assert "8 GPUs need 2 nodes, and the policy allows one" in one("single-numa-node", P4D, burst).error


def test_runners_with_cpus_of_their_own_are_counted_by_numa_node() -> None:
    # 95 CPUs hold three runners of 30 by arithmetic, but only one fits on each NUMA node of 48.
    by_policy = {policy: one(policy, P4D, sized(1, 30)) for policy in ("best-effort", "restricted")}
    assert {policy: found.worst.count for policy, found in by_policy.items()} == {"best-effort": 3, "restricted": 2}
    assert by_policy["restricted"].capacity == 4
    assert by_policy["restricted"].remarks == (f"6 of 8 GPUs of a full {P4D} stay idle: no NUMA node has room for one more",)


def test_shares_of_gpus_are_on_the_numa_node_of_their_gpu() -> None:
    changed = numa_pool(
        "single-numa-node", "g4dn.metal", sharing={"strategy": "time-slicing", "replicas": 2, "allowSeveral": True}
    )
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": changed}, runners={"gpu": sized(9, 4), "less": sized(8, 4)})}))
    more, less = place(fleet)
    assert "8+8 shares" in more.error
    assert "9 shares need 2 nodes" in more.error
    assert (less.error, less.worst.count) == ("", 2)


def test_the_incident_of_a_whole_p5_under_single_numa_node() -> None:
    """pytorch/ci-infra#652: eight GPUs and a pool that allows one NUMA node. best-effort was the fix."""
    whole = sized(8, 176, "1800Gi")
    assert "8 GPUs need 2 nodes" in one("single-numa-node", "p5.48xlarge", whole).error
    assert not one("best-effort", "p5.48xlarge", whole).error
    assert not one("restricted", "p5.48xlarge", whole).error


def test_the_incident_of_four_gpus_beside_small_runners() -> None:
    """pytorch/ci-infra#696: sets of 1 and 4 GPUs in one pool of p5 under single-numa-node."""
    sets = {"gpu-1": sized(1, 20), "gpu-4": sized(4, 88)}
    fleet = stack("single-numa-node", "p5.48xlarge", sets)
    assert not any(each.error for each in place(fleet)), "on an empty node both fit"
    assert list(fragmented(place(fleet))) == [
        "usw2/t4: 2 runners of gpu-1 on a p5.48xlarge can make its kubelet reject gpu-4 (TopologyAffinityError) with 6 of 8 GPUs "
        "free, because the scheduler does not know NUMA nodes; give gpu-4 a pool of its own, or set topologyManagerPolicy "
        "best-effort"
    ]
    assert not list(fragmented(place(stack("best-effort", "p5.48xlarge", sets))))
    assert not list(fragmented(place(stack("single-numa-node", "p5.48xlarge", {"gpu-4": sized(4, 88)}))))


def test_a_full_node_is_no_surprise() -> None:
    sets = {"gpu-4": sized(4, 88), "other-4": sized(4, 80)}
    assert not list(fragmented(place(stack("single-numa-node", "p5.48xlarge", sets)))), "two of them use all GPUs"


# -- machines with unknown NUMA nodes ----------------------------------------------------------------------------------

UNKNOWN = (
    "undeterminable: topologyManagerPolicy restricted may reject it (TopologyAffinityError): the NUMA nodes of g6.12xlarge are "
    "not known: no source names them; lscpu on a node shows them; add them to fleet/facts/data/numa.csv"
)


def test_a_machine_without_numa_nodes_in_the_table_is_undeterminable() -> None:
    placed = one("restricted", "g6.12xlarge", sized(2, 16))
    assert (placed.error, placed.worst.count) == ("", 2)
    assert placed.remarks == (UNKNOWN,)


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ("best-effort", sized(4, 40)),
        ("single-numa-node", runner(cpu={"request": 4, "limit": 8})),
        ("restricted", runner(gpus=4, cpu={"request": 4, "limit": 8})),
    ],
)
def test_what_any_layout_admits_is_certain(policy: str, asked: dict[str, Any]) -> None:
    assert one(policy, "g6.12xlarge", asked).remarks == ()


def test_a_shape_with_a_choice_of_numa_nodes_is_undeterminable() -> None:
    held = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}
    pools = {"a100": oke_pool(instanceTypes=["BM.GPU4.8"], kubelet=held)}
    asked = sized(8, 44) | oke_runner(pool="a100", gpus=8, cpu={"request": 44, "limit": 44})
    (placed,) = place(load(config(clusters={"sjc": oke_cluster(pools=pools, runners={"oci": asked})})))
    assert not placed.error
    assert any("numaNodesPerSocket" in remark and "undeterminable" in remark for remark in placed.remarks)


@pytest.mark.parametrize(("policy", "warned"), [("none", False), ("best-effort", True), ("restricted", True)])
def test_a_grace_machine_may_have_too_many_numa_nodes_for_any_policy(policy: str, warned: bool) -> None:
    pools = {"gb200": oke_pool(instanceTypes=["BM.GPU.GB200.4"], kubelet={"topologyManagerPolicy": policy})}
    runners = {"oci": oke_runner(pool="gb200", gpus=4)}
    (placed,) = place(load(config(clusters={"sjc": oke_cluster(pools=pools, runners=runners)})))
    start = f"undeterminable: kubelet does not start with topologyManagerPolicy {policy} on more than 8 NUMA nodes"
    assert any(remark.startswith(start) for remark in placed.remarks) == warned


# -- every provider, jobs, workloads, explain --------------------------------------------------------------------------


def test_every_provider_carries_the_policies() -> None:
    held = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"}
    clusters = {
        "usw2": cluster(pools={"t4": pool(nodeConfig={"kubelet": {"config": held}})}),
        "sjc": oke_cluster(pools={"a10": oke_pool(kubelet=held)}),
        "lab": existing_context(kubelet=held),
        "home": talos_cluster(pools={"gpu": talos_pool(kubelet=held)}),
    }
    fleets = [load(config(clusters={name: each})) for name, each in clusters.items()]
    hosts = [host for fleet in fleets for _, each in fleet.clusters_by_name() for host in pool_hosts(each).values()]
    assert len(hosts) == 4
    for host in hosts:
        assert host.managers is not None
        found = (host.managers.cpu_manager_policy, host.managers.topology_manager_policy, host.managers.topology_manager_scope)
        assert found == ("static", "single-numa-node", "pod")


def test_nodes_of_a_cluster_that_exists_are_judged_by_the_policy_that_the_settings_state() -> None:
    held = existing_context(instanceTypes=[P4D], kubelet={"topologyManagerPolicy": "single-numa-node"})
    (placed,) = place(load(config(clusters={"lab": held | {"runners": {"gpu": runner(gpus=8)}}})))
    assert "8 GPUs need 2 nodes, and the policy allows one" in placed.error


def test_a_job_and_a_workload_get_the_same_answer_as_a_runner() -> None:
    workload = {"kind": "tf-notebook", "pool": "t4", "gpus": 8}
    fleet = stack("single-numa-node", P4D, {"gpu": runner()}, workloads={"models": workload})
    (found,) = refusals(fleet)
    assert "8 GPUs need 2 nodes, and the policy allows one" in found.error
    with pytest.raises(JobRefusedError, match="8 GPUs need 2 nodes, and the policy allows one"):
        place_job(fleet, gpu_job("task", "example/app:1", gpu_type="a100", gpu_count=8))
    assert place_job(fleet, gpu_job("task", "example/app:1", gpu_type="a100", gpu_count=4)).chosen.pool == "t4"


def test_workloads_and_jobs_on_unknown_numa_nodes_are_undeterminable() -> None:
    workload = {"kind": "tf-notebook", "pool": "t4", "gpus": 2}
    fleet = stack("restricted", "g6.12xlarge", {"gpu": runner()}, workloads={"models": workload})
    assert f"usw2/models: {UNKNOWN}" in list(room.remarks(fleet))
    assert UNKNOWN in place_job(fleet, gpu_job("task", "example/app:1", gpu_type="l4", gpu_count=2)).remarks


@pytest.mark.parametrize(("limit", "waits"), [("44", True), ("48", False)])
def test_a_guaranteed_pod_of_anyone_is_explained_by_its_numa_nodes(limit: str, waits: bool) -> None:
    amounts = {"cpu": "44", "memory": "64Gi", "nvidia.com/gpu": "8"}
    spec = {
        "containers": [{"name": "a", "resources": {"requests": amounts, "limits": amounts | {"cpu": limit}}}],
        "tolerations": [{"operator": "Exists"}],
    }
    pod = pod_of("pod.yaml", {"kind": "Pod", "metadata": {"name": "a", "namespace": "ai"}, "spec": spec})
    assert pod is not None
    (answer,) = [each for each in explain(stack("restricted", P4D, {"gpu": runner()}), pod).answers if not each.nodes.is_system]
    assert any("TopologyAffinityError" in reason.text for reason in answer.reasons) == waits
    policy = 'stack: set clusters.usw2.pools.t4.nodeConfig.kubelet.config.topologyManagerPolicy: "best-effort"'
    assert any(reason.fix == policy for reason in answer.reasons) == waits


# -- the table ---------------------------------------------------------------------------------------------------------


def test_numa_nodes_have_all_cpus_and_gpus_of_their_machine() -> None:
    found = {row["machine"]: row for row in rows("numa.csv")}
    for name, row in found.items():
        machine = hardware.machine(name)
        nodes = layout(machine)
        assert row["source"]
        assert date.fromisoformat(row["date"])
        if nodes is None:
            assert row["unknown"], f"{name}: say why"
        else:
            assert (sum(nodes.cpus), sum(nodes.gpus)) == (machine.vcpus, machine.gpus), name
            assert len(nodes.cpus) == len(nodes.gpus)
    assert len(found) == len(rows("numa.csv"))
