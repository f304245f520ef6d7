"""Placement of all three kinds of runners: what fits, what is left over, what is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.charts.arc import LAUNCHER_POD, arc_controller
from fleet.charts.device_plugin import PLUGIN_POD
from fleet.facts import hardware
from fleet.facts.offer import allocatable, least
from fleet.facts.pods import Requests
from fleet.facts.quantities import cpu_text
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove.launchers import launcher_room
from fleet.prove.placement import Host, Placement, PlacementError, fit, overbooked, place, pool_host, smallest
from fleet.providers.provider import Provider
from fleet.providers.registry import PROVIDERS
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from tests.builders import (
    THERE,
    cluster,
    config,
    gitops,
    oke_cluster,
    oke_pool,
    oke_runner,
    place as place_of,
    pool,
    pool_of,
    runner,
    runner_of,
    vm,
    vm_per_job,
)
from tests.cases import cases
from tests.charts import launcher_set
from tests.examples import examples
from tests.fleet import catalogue
from tests.fleet.values import asks

DISK = 200 * 1024
pytestmark = pytest.mark.usefixtures("catalogue")
GPU_TYPES = [machine for machine in catalogue.machines("aws") if machine.gpus]
EKS: tuple[Requests, ...] = (*catalogue.daemonsets("eks"), PLUGIN_POD)

# What these request on a node, in millicores and MiB: CNI, kube-proxy, node monitoring, device plugin.
DAEMON_CPU, DAEMON_MEMORY = 50 + 100 + 10 + 50, 30 + 100


def eks_host(*types: str, disk: int = DISK, count: int = 2) -> Host:
    """On-demand EKS nodes of these types, two at most."""
    return Host("t4", tuple(map(hardware.machine, types)), count, "on-demand", disk, EKS)


# -- what fits ---------------------------------------------------------------------------------------------------------


@cases(
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
    found = fit(runner_of(*asked), hardware.machine(name), eks_host(name))
    assert (found.count, found.limited_by, found.stranded) == (count, limited_by, stranded)


def test_the_disk_limits_too() -> None:
    found = fit(runner_of(scratch="60Gi"), hardware.machine("g4dn.12xlarge"), eks_host("g4dn.12xlarge", disk=200 * 1024))
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
many = settings(max_examples=examples(150), database=None)


def _holds(asked: PodRunner, count: int, machine: hardware.Machine, disk: int) -> bool:
    """Whether a machine holds `count` runners, by adding up each resource."""
    offer = allocatable(machine, disk)
    return (
        count * asked.gpus <= offer.gpus
        and count * asked.cpu.request + DAEMON_CPU <= offer.cpu
        and count * asked.memory.request + DAEMON_MEMORY <= offer.memory
        and count * asked.scratch <= offer.storage
        and count + len(EKS) <= offer.pods
    )


@many
@given(_RUNNERS, _MACHINES, _DISKS)
def test_a_count_fits_and_one_more_does_not(asked: PodRunner, machine: hardware.Machine, disk: int) -> None:
    found = fit(asked, machine, eks_host(machine.name, disk=disk))
    assert found.count == 0 or _holds(asked, found.count, machine, disk)
    assert not _holds(asked, found.count + 1, machine, disk)
    assert found.stranded == machine.gpus - found.count * asked.gpus
    assert found.stranded >= 0


@many
@given(_RUNNERS, st.sampled_from(GPU_TYPES), _DISKS)
def test_the_smallest_type_is_the_one_that_a_search_finds(asked: PodRunner, machine: hardware.Machine, disk: int) -> None:
    holding = [other for other in GPU_TYPES if other.gpu == machine.gpu and _holds(asked, 1, other, disk)]
    best = smallest(asked, eks_host(machine.name, disk=disk))
    if not holding:
        assert best is None
        return
    assert best in holding
    assert best is not None
    rank = (best.gpus, best.memory_mib, best.vcpus)
    assert rank == min((other.gpus, other.memory_mib, other.vcpus) for other in holding)


def test_fewer_gpus_are_smaller_than_less_memory() -> None:
    # g5.12xlarge has less memory than g5.16xlarge, and four GPUs: three would be paid for nothing.
    best = smallest(runner_of(1, 20, "140Gi"), eks_host("g5.2xlarge"))
    assert best is not None
    assert best.name == "g5.16xlarge"


# -- reports -----------------------------------------------------------------------------------------------------------


def _placed(asked: dict[str, Any] | None = None, **changes: Any) -> Placement:
    one = cluster(pools={"t4": pool(**changes)}, runners={"gpu-t4": runner(**(asked or {}))})
    return place(load(config(clusters={"usw2": one})))[0]


def _size(cpu: object, memory: str, limit: str | None = None) -> dict[str, Any]:
    return {"cpu": {"request": cpu, "limit": cpu}, "memory": {"request": memory, "limit": limit or memory}}


def test_seed_000s_runner_on_its_own_machine_is_told_every_shortage_and_the_smallest_type() -> None:
    assert _placed(instanceTypes=["g4dn.xlarge"]).error == (
        "asks for 4 CPU and 16Gi, g4dn.xlarge leaves pods 3710m of 4 and 14351Mi of 16Gi; "
        "the smallest type that is large enough is g4dn.2xlarge"
    )


def test_one_type_of_a_pool_that_is_too_small_is_an_error() -> None:
    found = _placed(instanceTypes=["g4dn.xlarge", "g4dn.2xlarge"])
    assert found.error.startswith("asks for 4 CPU and 16Gi, g4dn.xlarge leaves"), "any type may be bought"
    assert "g4dn.2xlarge leaves" not in found.error
    assert found.capacity == 0
    assert found.remarks == (), "an error says enough"


@cases(
    ("asked", "changes", "error"),
    [
        (
            {"gpus": 2},
            {},
            "asks for 2 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
        ),
        (
            {"gpus": 9},
            {},
            "asks for 9 GPUs, g4dn.2xlarge has 1; no type with this GPU in this cloud is large enough: ask for less",
        ),
        (
            _size(2, "30Gi"),
            {},
            "asks for 30Gi, g4dn.2xlarge leaves pods 29506Mi of 32Gi; the smallest type that is large enough is g4dn.4xlarge",
        ),
        (
            {"scratch": "90Gi"},
            {"disk": "50Gi"},
            "asks for 90Gi of disk, g4dn.2xlarge leaves pods 45056Mi of 50Gi; raise the pool's disk to 102Gi",
        ),
        (
            _size("7700m", "16Gi"),
            {},
            "",
        ),
        (
            _size("7701m", "16Gi"),
            {},
            "asks for 7701m CPU, g4dn.2xlarge leaves pods 7700m of 8; the smallest type that is large enough is g4dn.4xlarge",
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
    host = eks_host(machine.name, disk=disk)
    found = Placement("usw2", "gpu", asked, host, (fit(asked, machine, host),))
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


def test_placement_error_has_a_line_for_each_set_that_cannot_be_placed() -> None:
    sets = {"gpu-a": runner(gpus=2), "gpu-b": runner(), "gpu-c": runner(gpus=4)}
    placements = place(load(config(clusters={"usw2": cluster(runners=sets)})))
    with pytest.raises(PlacementError) as caught:
        require(load(config()), placements)
    assert str(caught.value).splitlines() == [
        "usw2.runners.gpu-a: asks for 2 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
        "usw2.runners.gpu-c: asks for 4 GPUs, g4dn.2xlarge has 1; the smallest type that is large enough is g4dn.12xlarge",
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
        "usw2/t4: 9 gpu-a runners need 2 nodes, the pool has at most 1: jobs beyond that wait, and no other set gets them; lower "
        "scale.max of gpu-a to 8"
    ]


def test_thirds_of_a_node_add_up_to_whole_ones() -> None:
    # 1/3 + 7/3 + 1/3 is three nodes, though floating point makes it a little more.
    sets = {f"gpu-{index}": runner(scale={"max": most}, **_size(29, "115Gi")) for index, most in enumerate([1, 7, 1])}
    assert 1 / 3 + 7 / 3 + 1 / 3 > 3
    assert _lines(sets, instanceTypes=["g4dn.metal"], nodes={"max": 3}) == []
    assert _lines(sets, instanceTypes=["g4dn.metal"], nodes={"max": 2})[0].endswith(
        "runners need 3 nodes, the pool has at most 2: jobs beyond that wait, and no other set gets them; lower "
        "scale.max of gpu-1 to 6"
    )


def test_a_pool_with_a_set_that_cannot_be_placed_is_left_to_that_error() -> None:
    assert _lines({"gpu-a": runner(gpus=2, scale={"max": 50})}) == []


def test_a_pool_of_one_type_is_a_pool_of_the_machine() -> None:
    held: Pool = pool_of(instanceTypes=["g5.12xlarge"])
    assert [machine.gpus for machine in held.machines] == [4]
    assert held.accelerator == "nvidia-a10g"
    assert cpu_text(least(allocatable(machine, held.disk) for machine in held.machines).cpu) == "47810m"


# -- OKE nodes ---------------------------------------------------------------------------------------------------------

OKE = catalogue.daemonsets("oke")
"""What the catalogue has on every node of OKE, in millicores, MiB and pods."""
OKE_CPU, OKE_MEMORY, OKE_PODS = sum(row.cpu for row in OKE), sum(row.memory for row in OKE), len(OKE)


def _on_oke(runners: dict[str, Any], **changes: Any) -> tuple[Placement, ...]:
    return place(load(config(clusters={"sjc": oke_cluster(runners=runners, **changes)})))


def test_an_oke_pool_is_reckoned_by_oracles_rules_and_its_own_daemonsets() -> None:
    (found,) = _on_oke({"gpu-a10": oke_runner(**_size(29, "200Gi"))})
    (only,) = found.fits
    # 29672m and 215290Mi of VM.GPU.A10.1 (test_offer.py).
    left = 29672 - OKE_CPU
    assert (only.offer.cpu, only.offer.memory, only.offer.pods) == (left, 215290 - OKE_MEMORY, 110 - OKE_PODS)
    assert (found.error, found.capacity, found.host.disk) == ("", 2, 400 * 1024)
    assert _on_oke({"gpu-a10": oke_runner(**_size(f"{left}m", "200Gi"))})[0].error == ""
    assert _on_oke({"gpu-a10": oke_runner(**_size(f"{left + 1}m", "200Gi"))})[0].error == (
        f"asks for {left + 1}m CPU, VM.GPU.A10.1 leaves pods {left}m of 30; "
        "the smallest type that is large enough is VM.GPU.A10.2"
    )


def test_what_advertises_the_gpus_takes_its_part_of_a_node() -> None:
    offers = {
        how: _on_oke({"gpu-a10": oke_runner()}, enablement=how)[0].fits[0].offer
        for how in ("gpu-plugin-addon", "device-plugin", "gpu-operator")
    }
    most = offers["gpu-plugin-addon"]
    assert {how: (most.cpu - offer.cpu, most.memory - offer.memory, most.pods - offer.pods) for how, offer in offers.items()} == {
        "gpu-plugin-addon": (0, 0, 0),
        "device-plugin": (50, 100, 1),
        # Plugin, feature discovery twice, DCGM exporter, validator: the image has driver and toolkit.
        "gpu-operator": (185, 804, 5),
    }


def test_a_pool_is_a_host_of_the_most_nodes_that_it_may_have() -> None:
    held = load(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool(nodes={"min": 1, "max": 7}, disk="500Gi")})}))
    assert pool_host(held.clusters["sjc"], "a10") == Host(
        "a10", (hardware.machine("VM.GPU.A10.1"),), 7, "on-demand", 500 * 1024, OKE
    )


# -- machines ----------------------------------------------------------------------------------------------------------


def test_a_machine_holds_one_job_whatever_its_shape() -> None:
    many_gpus = vm_per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"], scale={"max": 5})
    fixed, boots = _on_oke({"fixed": vm(count=2), "boots": many_gpus})
    assert (fixed.host.name, boots.host.name) == ("standing VMs", "VM per job")
    assert (fixed.capacity, boots.capacity) == (2, 5), "as many jobs as machines"
    assert [(each.machine.name, each.count, each.limited_by, each.stranded) for each in boots.fits] == [
        ("BM.GPU4.8", 1, "one job", 0),
        ("BM.GPU.B4.8", 1, "one job", 0),
    ]
    assert [found.error for found in (fixed, boots)] == ["", ""]


def test_machines_that_fall_back_say_in_which_order() -> None:
    two = vm_per_job(shapes=["BM.GPU4.8", "BM.GPU.B4.8"], places=[place_of(), place_of(THERE)])
    (found,) = _on_oke({"boots": two})
    assert found.remarks == (
        "falls back in this order where OCI has no capacity: "
        "BM.GPU4.8 in US-SANJOSE-1-AD-1, US-ASHBURN-AD-2; BM.GPU.B4.8 in US-SANJOSE-1-AD-1, US-ASHBURN-AD-2",
    )
    assert [found.remarks for found in _on_oke({"boots": vm_per_job(), "fixed": vm(count=2)})] == [(), ()], "one shape, one place"


def _machines(count: int, **system: Any) -> tuple[Placement, ...]:
    """Machines of one set in a cluster without pools, on a system pool of one small node."""
    small = {"ocpus": 1, "memory": "4Gi", "nodes": 1} | system
    return _on_oke({"boots": vm_per_job(scale={"max": count})}, pools={}, system=small)


def _room(cpu: int, memory: int, pods: int, listeners: int = 0, reaper: bool = False) -> int:
    """Launchers of 50m and 128Mi on a node of this; listeners ask the same, the controller beside them 100m and 256Mi.

    The reaper of pod runners asks 20m and 96Mi.
    """
    arc = (100 + 50 * listeners, 256 + 128 * listeners, 1 + listeners) if listeners else (0, 0, 0)
    arc = (arc[0] + 20 * reaper, arc[1] + 96 * reaper, arc[2] + reaper)
    left = (cpu - OKE_CPU - arc[0], memory - OKE_MEMORY - arc[1], pods - OKE_PODS - arc[2])
    return min(left[0] // 50, left[1] // 128, left[2])


@cases(
    ("system", "room"),
    [
        # What nodes of these sizes offer: test_offer.py. The second of two has no pod of ARC's.
        ({}, _room(1815, 2564, 31, 1)),
        ({"nodes": 2}, _room(1815, 2564, 31, 1) + _room(1815, 2564, 31)),
        ({"ocpus": 2, "memory": "16Gi"}, _room(3802, 12292, 31, 1)),
        ({"ocpus": 8, "memory": "64Gi", "nodes": 3}, _room(15742, 54808, 110, 1) + 2 * _room(15742, 54808, 110)),
    ],
)
def test_launchers_have_the_room_that_arcs_own_pods_leave(system: dict[str, Any], room: int) -> None:
    assert _machines(1, **system)[0].launchers == room


def test_each_of_cpu_memory_and_pods_may_run_out_first() -> None:
    assert _room(1815, 2564, 31, 1) == (2564 - OKE_MEMORY - 384) // 128, "memory"
    assert _room(3802, 12292, 31, 1) == 31 - OKE_PODS - 2, "addresses for pods"
    assert _machines(1, memory="16Gi")[0].launchers == min((1815 - OKE_CPU - 150) // 50, 31 - OKE_PODS - 2)


def test_more_machines_than_launchers_is_a_remark() -> None:
    room = _room(1815, 2564, 31, 1)
    assert list(overbooked(_machines(room))) == []
    assert list(overbooked(_machines(room + 1))) == [
        f"sjc/system: {room + 1} boots machines need a launcher each, the system pool holds {room}: jobs beyond that wait"
    ]


def test_all_sets_of_machines_share_the_system_pool_and_each_set_has_a_listener() -> None:
    system = {"ocpus": 1, "memory": "4Gi", "nodes": 1}
    pods = {"gpu-a10": oke_runner(scale={"max": 2})}
    sets = {"boots": vm_per_job(scale={"max": 8}), "fixed": vm(count=8)} | pods
    room = _room(1815, 2564, 31, 3, reaper=True)
    placements = _on_oke(sets, system=system)
    assert [found.launchers for found in placements] == [room, room, None]
    assert list(overbooked(placements)) == [
        f"sjc/system: 8 fixed + 8 boots machines need a launcher each, the system pool holds {room}: 8 of fixed always "
        f"run, the other {room - 8} are for jobs of boots; more jobs than that wait"
    ]
    assert list(overbooked(_on_oke(sets, system=system | {"nodes": 2}))) == []


def _crowded(**sets: Any) -> str:
    """What is said of these sets of machines after their number, where a small system pool has too few launchers for them."""
    system = {"ocpus": 1, "memory": "4Gi", "nodes": 1}
    room = _room(1815, 2564, 31, len(sets))
    (line,) = overbooked(_on_oke(sets, pools={}, system=system))
    asked, _, said = line.partition(f"the system pool holds {room}: ")
    assert asked.startswith("sjc/system: ")
    return said


def test_standing_machines_that_keep_every_launcher_starve_the_others() -> None:
    room = _room(1815, 2564, 31, 3)
    assert _crowded(boots=vm_per_job(), fixed=vm(count=room - 1), also=vm(count=1)) == (
        f"{room - 1} of fixed + 1 of also always run, and boots may get none; raise system.nodes"
    )
    assert _crowded(boots=vm_per_job(), fixed=vm(count=room + 2), also=vm_per_job()) == (
        f"{room + 2} of fixed always run, 2 of them without a launcher, and boots and also may get none; raise system.nodes"
    )


def test_standing_machines_beyond_the_launchers_are_told() -> None:
    room = _room(1815, 2564, 31, 1)
    assert _crowded(fixed=vm(count=room + 1)) == (
        f"{room + 1} of fixed always run, 1 of them without a launcher; raise system.nodes"
    )


def test_a_set_that_keeps_some_machines_and_may_have_more_counts_as_both() -> None:
    room = _room(1815, 2564, 31, 2)
    said = _crowded(boots=vm_per_job(scale={"min": 1, "max": room}), fixed=vm(count=2))
    assert said == (f"1 of boots + 2 of fixed always run, the other {room - 3} are for jobs of boots; more jobs than that wait")


def test_a_provider_without_launchers_has_no_place_for_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    held = load(config(clusters={"sjc": oke_cluster(runners={"fixed": vm()})}))
    monkeypatch.setattr(type(PROVIDERS["oke"]), "system_machines", lambda *_: None)
    with pytest.raises(TypeError, match="sjc/fixed: oke has no place for runners of kind vm"):
        place(held)


def test_clouds_whose_clusters_the_program_creates_say_what_room_their_system_pool_has() -> None:
    own = {name for name, row in PROVIDERS.items() if type(row).system_machines is not Provider.system_machines}
    assert own == {"eks", "oke"}


def test_a_system_pool_without_room_for_one_launcher_is_an_error() -> None:
    (found,) = _machines(1, memory="1Gi")
    assert found.error == (
        "its launcher (50m CPU, 128Mi) has no room in the system pool beside ARC's controller and listeners; raise system.nodes"
    )
    assert list(overbooked([found])) == [], "an error says enough"
    assert found.remarks == ()
    with pytest.raises(PlacementError, match=r"sjc\.runners\.boots: its launcher"):
        require(load(config()), [found])
    require(load(config()), _machines(1, memory="1Gi", nodes=2))


def test_arcs_own_pods_that_fill_the_system_pool_leave_no_room() -> None:
    many_sets = {f"boots-{index}": vm_per_job(scale={"max": 1}) for index in range(30)}
    placements = _on_oke(many_sets, pools={}, system={"ocpus": 1, "memory": "4Gi", "nodes": 1})
    assert {found.launchers for found in placements} == {0}


def _asks(pod: dict[str, Any]) -> tuple[int, int]:
    """What the one container of a pod requests."""
    (container,) = pod["containers"]
    return asks(container["resources"])


def test_the_proof_reckons_with_what_the_charts_ask() -> None:
    abroad = vm_per_job(launcher="cncf", places=[place_of() | {"subnet": "ocid1.subnet.oc1..example"}])
    abroad.pop("image")
    held = load(config(clusters={"sjc": oke_cluster(runners={"boots": vm_per_job(), "cncf": abroad, "fixed": vm()})}))
    compartment = "ocid1.compartment.oc1..example"
    for name, asked in held.clusters["sjc"].runners.items():
        chart = launcher_set(name, asked, "https://github.com/example", "gpu", region="us-sanjose-1", compartment=compartment)
        assert _asks(chart.values["template"]["spec"]) == (LAUNCHER_POD.cpu, LAUNCHER_POD.memory), name
        (listener,) = chart.pods
        assert _asks(chart.values["listenerTemplate"]["spec"]) == (listener.cpu, listener.memory), name
    (controller,) = arc_controller().pods
    assert asks(arc_controller().values["resources"]) == (controller.cpu, controller.memory)


def _room_of(**changes: Any) -> int | None:
    """Launchers that the system pool of an OKE cluster holds."""
    fleet = load(config(clusters={"sjc": oke_cluster(**changes)}))
    return launcher_room("sjc", fleet.clusters["sjc"], fleet.github)


def test_the_operators_own_pods_take_room_from_launchers() -> None:
    system, pools = {"memory": "2Gi", "nodes": 1}, {"a10": oke_pool(image="oke-gpu")}
    without, held = (
        _room_of(enablement=enablement, pools=pools, runners={}, system=system)
        for enablement in ("gpu-plugin-addon", "gpu-operator")
    )
    assert without is not None
    assert held is not None
    assert without - held == 3, "the operator's pods have 420Mi with the worker of feature discovery; three launchers have 384Mi"


def test_an_operator_without_nodes_is_not_installed_and_takes_no_room() -> None:
    system = {"memory": "2Gi", "nodes": 1}
    without, held = (
        _room_of(enablement=enablement, pools={}, runners={}, system=system)
        for enablement in ("gpu-plugin-addon", "gpu-operator")
    )
    assert without == held


def test_kueue_takes_room_from_launchers() -> None:
    queues = {"teams": {"research": {"namespaces": ["research"], "quotas": [{"pool": "a10", "nominal": 1}]}}}
    system = {"memory": "4Gi", "nodes": 1}
    without, held = (_room_of(system=system, **changes) for changes in ({}, {"queues": queues}))
    assert without is not None
    assert held is not None
    assert without - held == 4, "as many as fit into what it requests: 200m of 50m each, 512Mi of 128Mi each"


def test_argo_cd_takes_room_from_launchers() -> None:
    """Its five pods request 500m and 1856Mi, and memory runs out first: 14 launchers have 1792Mi."""
    system = {"ocpus": 4, "memory": "8Gi", "nodes": 1}
    without, held = (_room_of(system=system, **changes) for changes in ({}, {"delivery": "argocd", "gitops": gitops()}))
    assert without is not None
    assert held is not None
    assert without - held == 14
