"""Placement: what a node offers against Karpenter's published numbers, what fits, what is left over, what is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import hardware
from fleet.model import cpu_text
from fleet.placement import (
    Placement,
    PlacementError,
    allocatable,
    fit,
    for_runners,
    overbooked,
    place,
    require,
    smallest,
    smallest_offer,
)
from fleet.pool import Pool
from fleet.runner import PodRunner
from fleet.settings import load
from fleet.versions import DAEMONSETS, DaemonSet
from tests.builders import cluster, config, pool, pool_of, reference, runner, runner_of, staging

DISK = 200 * 1024
GPU_TYPES = [machine for machine in hardware.machines("aws") if machine.gpus]

# What our DaemonSets request on a node, in millicores and MiB: CNI, kube-proxy, node monitoring, device plugin.
DAEMON_CPU, DAEMON_MEMORY = 50 + 100 + 10 + 50, 30 + 100


# -- what a node offers ------------------------------------------------------------------------------------------------


def _karpenter() -> Iterator[tuple[hardware.Machine, dict[str, str]]]:
    table = json.loads(reference("instances/karpenter-instance-types-gpu.json").read_text(encoding="utf-8"))
    known = {machine.name: machine for machine in GPU_TYPES}
    for name in sorted(known.keys() & table):
        yield known[name], table[name]["resources"]


@pytest.mark.reference
def test_allocatable_cpu_and_memory_are_karpenters() -> None:
    rows = list(_karpenter())
    assert len(rows) > 40, "both tables have most types"
    ours = {machine.name: (offer := allocatable(machine, DISK)) and (offer.cpu, offer.memory) for machine, _ in rows}
    theirs = {machine.name: (int(row["cpu"][:-1]), int(row["memory"][:-2])) for machine, row in rows}
    assert {row["cpu"][-1:] + row["memory"][-2:] for _, row in rows} == {"mMi"}, "millicores and Mi"
    assert ours == theirs


@pytest.mark.reference
def test_allocatable_storage_and_gpus_are_karpenters() -> None:
    """Karpenter's table is made for its default root volume of 20Gi."""
    for machine, row in _karpenter():
        offer = allocatable(machine, 20 * 1024)
        assert row["ephemeral-storage"] == f"{offer.storage // 1024}Gi", machine.name
        assert row["nvidia.com/gpu"] == str(offer.gpus), machine.name
        assert offer.pods <= int(row["pods"]), f"{machine.name}: a managed node group allows no more pods than the network"


@pytest.mark.parametrize(
    ("name", "cpu", "memory", "pods"),
    [
        # 4000 - (60 + 10 + 2 x 5); 16384 x 0.925 = 15155 - (255 + 11 x 29) - 100
        ("g4dn.xlarge", 3920, 14481, 29),
        # 8000 - (80 + 4 x 2.5); 32768 x 0.925 = 30310 - 574 - 100
        ("g4dn.2xlarge", 7910, 29636, 29),
        # 96000 - (80 + 92 x 2.5); 393216 x 0.925 = 363724 - (255 + 11 x 737) - 100; 250 pods at most
        ("g4dn.metal", 95690, 355262, 250),
        # 2000 - (60 + 10); 8192 x 0.925 = 7577 - 574 - 100
        ("m6i.large", 1930, 6903, 29),
        # 58 addresses, and less than 30 vCPU allow 110
        ("g5.2xlarge", 7910, 30310 - (255 + 11 * 58) - 100, 58),
        # 234 addresses, capped at 110 below 30 vCPU
        ("g5.4xlarge", 15890, 60620 - (255 + 11 * 234) - 100, 110),
    ],
)
def test_allocatable_follows_the_reservations_of_the_node_image(name: str, cpu: int, memory: int, pods: int) -> None:
    offer = allocatable(hardware.machine(name), DISK)
    assert (offer.cpu, offer.memory, offer.pods) == (cpu, memory, pods)
    assert offer.storage == int(DISK * 0.9) - 1024, "a tenth of the disk is for eviction, 1 GiB is reserved"


def test_runners_get_what_the_daemonsets_leave() -> None:
    machine = hardware.machine("g4dn.2xlarge")
    offer, left = allocatable(machine, DISK), for_runners(machine, DISK)
    assert offer.cpu - left.cpu == DAEMON_CPU
    assert offer.memory - left.memory == DAEMON_MEMORY
    assert offer.pods - left.pods == len(DAEMONSETS)
    assert (left.gpus, left.storage) == (offer.gpus, offer.storage)
    assert for_runners(machine, DISK, [DaemonSet("log-shipper", 100, 200)]).memory == offer.memory - 200
    assert for_runners(machine, DISK, ()) == offer


def test_the_template_of_a_pool_is_the_least_of_its_types() -> None:
    mixed = pool_of(instanceTypes=["g4dn.4xlarge", "g4dn.2xlarge", "g4dn.8xlarge"], disk="100Gi")
    offers = [allocatable(machine, mixed.disk) for machine in mixed.machines]
    template = smallest_offer(mixed)
    for field in dataclasses.fields(template):
        assert getattr(template, field.name) == min(getattr(offer, field.name) for offer in offers), field.name


# -- what fits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "name", "count", "limited_by", "stranded"),
    [
        # seed 000's runner: neither 4 CPU nor 16Gi are left of a machine that has just these
        ((1, 4, "16Gi"), "g4dn.xlarge", 0, "CPU", 1),
        ((1, 4, "16Gi"), "g4dn.2xlarge", 1, "GPUs", 0),
        # A runner that fills g4dn.8xlarge, on larger types: GPUs stay idle for want of CPU.
        ((1, 29, "115Gi"), "g4dn.metal", 3, "CPU", 5),
        ((1, 29, "115Gi"), "g4dn.12xlarge", 1, "CPU", 3),
        ((1, 29, "115Gi"), "g4dn.8xlarge", 1, "GPUs", 0),
        ((1, 29, "113Gi"), "g5.48xlarge", 6, "CPU", 2),
        ((1, 29, "113Gi"), "g6.48xlarge", 6, "CPU", 2),
        # Memory runs out first: 3 x 118000Mi of 355132Mi.
        ((1, 1, "118000Mi"), "g4dn.metal", 3, "memory", 5),
        ((3, 1, "4Gi"), "g4dn.metal", 2, "GPUs", 2),
        ((8, 90, "300Gi"), "g4dn.metal", 1, "GPUs", 0),
        ((8, 1, "4Gi"), "g4dn.12xlarge", 0, "GPUs", 4),
    ],
)
def test_runners_on_one_machine_are_counted_by_what_runs_out_first(
    asked: tuple[int, int, str], name: str, count: int, limited_by: str, stranded: int
) -> None:
    found = fit(runner_of(*asked), hardware.machine(name), DISK)
    assert (found.count, found.limited_by, found.stranded) == (count, limited_by, stranded)


def test_the_disk_limits_too() -> None:
    found = fit(runner_of(scratch="60Gi"), hardware.machine("g4dn.12xlarge"), 200 * 1024)
    # 200Gi x 0.9 - 1Gi = 179Gi = 2 x 60Gi and a rest
    assert (found.count, found.limited_by, found.stranded) == (2, "disk", 2)


_MACHINES = st.sampled_from(GPU_TYPES)
_RUNNERS = st.builds(
    runner_of,
    gpus=st.integers(1, 8),
    cpu=st.integers(1, 400).map(lambda halves: halves / 2),
    memory=st.integers(3, 2048).map("{}Gi".format),
    scratch=st.integers(1, 300).map("{}Gi".format),
)
_DISKS = st.integers(30, 2000).map(lambda gibibytes: gibibytes * 1024)
many = settings(deadline=None, max_examples=150, database=None)


def _holds(asked: PodRunner, count: int, machine: hardware.Machine, disk: int) -> bool:
    """Whether a machine holds `count` runners, by adding up each resource."""
    offer = allocatable(machine, disk)
    return (
        count * asked.gpus <= offer.gpus
        and count * asked.cpu.request + DAEMON_CPU <= offer.cpu
        and count * asked.memory.request + DAEMON_MEMORY <= offer.memory
        and count * asked.scratch <= offer.storage
        and count + len(DAEMONSETS) <= offer.pods
    )


@many
@given(_RUNNERS, _MACHINES, _DISKS)
def test_a_count_fits_and_one_more_does_not(asked: PodRunner, machine: hardware.Machine, disk: int) -> None:
    found = fit(asked, machine, disk)
    assert found.count == 0 or _holds(asked, found.count, machine, disk)
    assert not _holds(asked, found.count + 1, machine, disk)
    assert found.stranded == machine.gpus - found.count * asked.gpus
    assert found.stranded >= 0


@many
@given(_RUNNERS, st.sampled_from(GPU_TYPES), _DISKS)
def test_the_smallest_type_is_the_one_that_a_search_finds(asked: PodRunner, machine: hardware.Machine, disk: int) -> None:
    of_pool = pool_of(instanceTypes=[machine.name], disk=f"{disk // 1024}Gi")
    holding = [other for other in GPU_TYPES if other.gpu == machine.gpu and _holds(asked, 1, other, disk)]
    best = smallest(asked, of_pool)
    if not holding:
        assert best is None
        return
    assert best in holding
    assert best is not None
    rank = (best.gpus, best.memory_mib, best.vcpus)
    assert rank == min((other.gpus, other.memory_mib, other.vcpus) for other in holding)


def test_fewer_gpus_are_smaller_than_less_memory() -> None:
    # g5.12xlarge has less memory than g5.16xlarge, and four GPUs: three would be paid for nothing.
    best = smallest(runner_of(1, 20, "140Gi"), pool_of(instanceTypes=["g5.2xlarge"]))
    assert best is not None
    assert best.name == "g5.16xlarge"


# -- what is told ------------------------------------------------------------------------------------------------------


def _placed(asked: dict[str, Any] | None = None, **changes: Any) -> Placement:
    one = cluster(pools={"t4": pool(**changes)}, runners={"gpu-t4": runner(**(asked or {}))})
    return place(load(config(clusters={"usw2": one})))[0]


def _size(cpu: object, memory: str, limit: str | None = None) -> dict[str, Any]:
    return {"cpu": {"request": cpu, "limit": cpu}, "memory": {"request": memory, "limit": limit or memory}}


def test_seed_000s_runner_on_its_own_machine_is_told_every_shortage_and_the_smallest_type() -> None:
    assert _placed(instanceTypes=["g4dn.xlarge"]).error == (
        "asks 4 CPU and 16Gi, g4dn.xlarge leaves pods 3710m of 4 and 14351Mi of 16Gi; "
        "the smallest type that would do is g4dn.2xlarge"
    )


def test_one_type_of_a_pool_that_is_too_small_is_an_error() -> None:
    found = _placed(instanceTypes=["g4dn.xlarge", "g4dn.2xlarge"])
    assert found.error.startswith("asks 4 CPU and 16Gi, g4dn.xlarge leaves"), "any type may be bought"
    assert "g4dn.2xlarge leaves" not in found.error
    assert found.capacity == 0
    assert found.remarks == (), "an error says enough"


@pytest.mark.parametrize(
    ("asked", "changes", "error"),
    [
        (
            {"gpus": 2},
            {},
            "asks 2 GPUs, g4dn.2xlarge has 1; the smallest type that would do is g4dn.12xlarge",
        ),
        (
            {"gpus": 9},
            {},
            "asks 9 GPUs, g4dn.2xlarge has 1; no type of this GPU and cloud would do: ask for less",
        ),
        (
            _size(2, "30Gi"),
            {},
            "asks 30Gi, g4dn.2xlarge leaves pods 29506Mi of 32Gi; the smallest type that would do is g4dn.4xlarge",
        ),
        (
            {"scratch": "90Gi"},
            {"disk": "50Gi"},
            "asks 90Gi of disk, g4dn.2xlarge leaves pods 45056Mi of 50Gi; raise the pool's disk to 102Gi",
        ),
        (
            _size("7700m", "16Gi"),
            {},
            "",
        ),
        (
            _size("7701m", "16Gi"),
            {},
            "asks 7701m CPU, g4dn.2xlarge leaves pods 7700m of 8; the smallest type that would do is g4dn.4xlarge",
        ),
    ],
)
def test_a_runner_that_does_not_fit_is_told_why_and_what_would_do(
    asked: dict[str, Any], changes: dict[str, Any], error: str
) -> None:
    assert _placed(asked, **changes).error == error


@many
@given(_RUNNERS, _MACHINES, _DISKS)
def test_there_is_an_error_exactly_when_no_runner_fits(asked: PodRunner, machine: hardware.Machine, disk: int) -> None:
    of_pool = pool_of(instanceTypes=[machine.name], disk=f"{disk // 1024}Gi")
    found = Placement("usw2", "gpu", asked, "t4", of_pool, (fit(asked, machine, disk),))
    assert bool(found.error) is not _holds(asked, 1, machine, disk)


def test_a_pools_capacity_is_reckoned_on_the_type_that_holds_fewest() -> None:
    found = _placed({"gpus": 1, **_size(29, "100Gi")}, instanceTypes=["g5.48xlarge"], nodes={"max": 3})
    assert found.capacity == 18
    two = _placed({"gpus": 1, **_size(40, "100Gi")}, instanceTypes=["g6.12xlarge", "g6.24xlarge"], nodes={"max": 3})
    assert [each.count for each in two.fits] == [1, 2]
    assert two.worst.machine.name == "g6.12xlarge"
    assert two.capacity == 3


def test_idle_gpus_of_a_full_machine_are_remarked_with_what_runs_out() -> None:
    assert _placed(_size(29, "115Gi"), instanceTypes=["g4dn.metal"]).remarks == (
        "5 of 8 GPUs of a full g4dn.metal stay idle: CPU runs out first",
    )
    assert _placed({"gpus": 3}, instanceTypes=["g4dn.metal"]).remarks == (
        "2 of 8 GPUs of a full g4dn.metal stay idle: runners of 3 do not divide them",
    )


def test_a_memory_limit_beyond_the_machine_is_remarked() -> None:
    assert _placed(_size(4, "16Gi", limit="32Gi")).remarks == (
        "memory limit 32Gi is above the 29506Mi of g4dn.2xlarge: a job may be evicted before it",
    )
    assert _placed(_size(4, "16Gi", limit="28Gi")).remarks == ()


def test_staging_can_be_placed_whole() -> None:
    placements = place(staging())
    assert [(found.cluster, found.runner_set, found.pool_name) for found in placements] == [
        ("usw2", "gpu-t4", "t4-spot"),
        ("usw2", "gpu-t4-release", "t4-release"),
    ]
    assert [found.error for found in placements] == ["", ""]
    require(placements)


def test_placement_error_has_a_line_for_each_set_that_cannot_be_placed() -> None:
    sets = {"gpu-a": runner(gpus=2), "gpu-b": runner(), "gpu-c": runner(gpus=4)}
    placements = place(load(config(clusters={"usw2": cluster(runners=sets)})))
    with pytest.raises(PlacementError) as caught:
        require(placements)
    assert str(caught.value).splitlines() == [
        "usw2.runners.gpu-a: asks 2 GPUs, g4dn.2xlarge has 1; the smallest type that would do is g4dn.12xlarge",
        "usw2.runners.gpu-c: asks 4 GPUs, g4dn.2xlarge has 1; the smallest type that would do is g4dn.12xlarge",
    ]


# -- more runners than nodes -------------------------------------------------------------------------------------------


def _lines(sets: dict[str, Any], **changes: Any) -> list[str]:
    fleet = load(config(clusters={"usw2": cluster(pools={"t4": pool(**changes)}, runners=sets)}))
    return list(overbooked(place(fleet)))


def test_a_pool_that_holds_what_its_sets_may_ask_is_not_overbooked() -> None:
    assert _lines({"gpu-a": runner(scale={"max": 1}), "gpu-b": runner(scale={"max": 1})}) == []
    assert _lines({"gpu-a": runner(scale={"max": 8})}, instanceTypes=["g4dn.metal"], nodes={"max": 1}) == []


def test_sets_that_share_a_pool_are_added_up() -> None:
    assert _lines({"gpu-a": runner(scale={"max": 2}), "gpu-b": runner(scale={"max": 1})}) == [
        "usw2/t4: 2 gpu-a + 1 gpu-b runners need 3 nodes, the pool has at most 2: jobs beyond that wait"
    ]


def test_parts_of_a_node_are_rounded_up() -> None:
    # Eight runners of one GPU fill a node, and a ninth needs a second one.
    assert _lines({"gpu-a": runner(scale={"max": 9})}, instanceTypes=["g4dn.metal"], nodes={"max": 1}) == [
        "usw2/t4: 9 gpu-a runners need 2 nodes, the pool has at most 1: jobs beyond that wait"
    ]


def test_thirds_of_a_node_add_up_to_whole_ones() -> None:
    # 1/3 + 7/3 + 1/3 is three nodes, though floating point makes it a little more.
    sets = {f"gpu-{index}": runner(scale={"max": most}, **_size(29, "115Gi")) for index, most in enumerate([1, 7, 1])}
    assert 1 / 3 + 7 / 3 + 1 / 3 > 3
    assert _lines(sets, instanceTypes=["g4dn.metal"], nodes={"max": 3}) == []
    assert _lines(sets, instanceTypes=["g4dn.metal"], nodes={"max": 2})[0].endswith(
        "runners need 3 nodes, the pool has at most 2: jobs beyond that wait"
    )


def test_a_pool_with_a_set_that_cannot_be_placed_is_left_to_that_error() -> None:
    assert _lines({"gpu-a": runner(gpus=2, scale={"max": 50})}) == []


def test_staging_waits_beyond_its_nodes_and_says_so() -> None:
    assert list(overbooked(place(staging()))) == [
        "usw2/t4-spot: 10 gpu-t4 runners need 10 nodes, the pool has at most 5: jobs beyond that wait"
    ]


def test_a_pool_of_one_type_is_a_pool_of_the_machine() -> None:
    held: Pool = pool_of(instanceTypes=["g5.12xlarge"])
    assert held.gpus_per_node == 4
    assert held.accelerator == "nvidia-a10g"
    assert cpu_text(smallest_offer(held).cpu) == "47810m"
