"""What a node offers to pods: EKS nodes against Karpenter's published numbers, OKE nodes against Oracle's published table."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator

import pytest

from fleet.charts.device_plugin import PLUGIN_POD
from fleet.facts import hardware
from fleet.facts.hardware import Machine
from fleet.facts.offer import Offer, allocatable, for_runners, least
from fleet.facts.pods import Requests
from fleet.facts.versions import DaemonSet, daemonsets
from tests.builders import pool_of, reference
from tests.cases import cases

DISK = 200 * 1024
EKS: tuple[Requests, ...] = (*daemonsets("eks"), PLUGIN_POD)
GPU_TYPES = [machine for machine in hardware.machines("aws") if machine.gpus]
GPU_SHAPES = [machine for machine in hardware.machines("oci") if machine.gpus]


# -- EKS ---------------------------------------------------------------------------------------------------------------


def _karpenter() -> Iterator[tuple[Machine, dict[str, str]]]:
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


@cases(
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
def test_allocatable_follows_the_reservations_of_ekss_node_image(name: str, cpu: int, memory: int, pods: int) -> None:
    offer = allocatable(hardware.machine(name), DISK)
    assert (offer.cpu, offer.memory, offer.pods) == (cpu, memory, pods)
    assert offer.storage == int(DISK * 0.9) - 1024, "a tenth of the disk is for eviction, 1 GiB is reserved"


# -- OKE ---------------------------------------------------------------------------------------------------------------

# docs.oracle.com, OKE cluster management best practices, "reserve resources": the default on managed nodes from 1.30 on.
# Kube-reserved in millicores by CPU cores: five given, 2.5m for each further one. 100m are system-reserved besides.
_CORES_OF_ORACLE = {1: 60, 2: 70, 3: 80, 4: 85, 5: 90}
# Kube-reserved memory in GiB by the node's GiB, 20 MiB for each GiB beyond 128.
_MEMORY_OF_ORACLE = {4: 1, 8: 1, 16: 2, 128: 9}


@cases(
    ("name", "cpu", "memory"),
    [
        # 60 counted cores: 30000 - (90 + 55 x 2.5 = 228) - 100
        # 240 GB: 9.32 + 0.02 x 112 = 11.56 GB, in MiB 11838; 245760 x 0.925 = 227328 - 11838 - 100 - 100
        ("VM.GPU.A10.1", 29672, 215290),
        # 120 counted cores: 60000 - (90 + 115 x 2.5 = 378) - 100; 480 GB: 9.32 + 0.02 x 352 = 16.36 GB
        ("VM.GPU.A10.2", 59522, 454656 - 16753 - 200),
        # 90 GB, below 128: 2.6 + 0.06 x 74 = 7.04 GB
        ("VM.GPU3.1", 12000 - 138 - 100, 85248 - 7209 - 200),
        # Arm has one thread a core: 144 counted, 90 + 139 x 2.5 = 438; 960 GB: 9.32 + 0.02 x 832 = 25.96 GB
        ("BM.GPU.GB200.4", 144000 - 438 - 100, 909312 - 26584 - 200),
    ],
)
def test_allocatable_follows_the_reservations_of_oke(name: str, cpu: int, memory: int) -> None:
    offer = allocatable(hardware.machine(name), DISK)
    assert (offer.cpu, offer.memory, offer.pods) == (cpu, memory, 110)
    assert offer.storage == int(DISK * 0.9) - 1024


@cases("machine", GPU_SHAPES)
def test_no_less_is_kept_of_an_oke_node_than_oracle_says(machine: Machine) -> None:
    offer = allocatable(machine, DISK)
    cores, gib = machine.vcpus, machine.memory_mib / 1024
    kept_cpu = _CORES_OF_ORACLE[min(cores, 5)] + math.ceil(2.5 * max(cores - 5, 0)) + 100
    assert machine.vcpus * 1000 - offer.cpu >= kept_cpu
    step = max(size for size in _MEMORY_OF_ORACLE if size <= gib)
    kept_memory = _MEMORY_OF_ORACLE[step] * 1024 + 20 * max(gib - 128, 0) + 100 + 100
    assert int(machine.memory_mib * 0.925) - offer.memory >= kept_memory, "a virtual machine shows less than its name, too"


@cases(
    ("ocpus", "gib", "cpu", "memory", "pods"),
    [(1, 4, 1815, 2564, 31), (2, 16, 3802, 12292, 31), (4, 32, 7782, 26464, 93), (8, 64, 15742, 54808, 110)],
)
def test_a_node_of_a_flexible_shape_offers_what_its_size_leaves(ocpus: int, gib: int, cpu: int, memory: int, pods: int) -> None:
    # 1 OCPU: 2000 - 85 (4 counted cores) - 100; 4 GB: 4096 x 0.925 = 3788 - 1024 - 200.
    # 2: 4000 - (90 + 3 x 2.5 = 98) - 100; 16 GB: 15155 - (1.8 + 0.8 = 2.6 GB, 2663) - 200.
    # 4: 8000 - (90 + 11 x 2.5 = 118) - 100; 32 GB: 30310 - (2.6 + 0.96 = 3.56 GB, 3646) - 200; (4 - 1) x 31 addresses.
    # 8: 16000 - (90 + 27 x 2.5 = 158) - 100; 64 GB: 60620 - (2.6 + 2.88 = 5.48 GB, 5612) - 200; OKE's limit of 110 pods.
    machine = hardware.flexible("VM.Standard.E5.Flex", ocpus, gib * 1024)
    assert (machine.cloud, machine.gpus, machine.vcpus) == ("oci", 0, 2 * ocpus)
    offer = allocatable(machine, 100 * 1024)
    assert (offer.cpu, offer.memory, offer.gpus, offer.pods) == (cpu, memory, 0, pods)


@cases("machine", [*GPU_TYPES, *GPU_SHAPES])
def test_a_node_offers_less_than_its_machine_and_all_of_its_gpus(machine: Machine) -> None:
    offer = allocatable(machine, DISK)
    assert 0 < offer.cpu < machine.vcpus * 1000
    assert 0 < offer.memory < machine.memory_mib
    assert 0 < offer.storage < DISK
    assert offer.gpus == machine.gpus


# -- less the DaemonSets -----------------------------------------------------------------------------------------------


def test_runners_get_what_the_daemonsets_leave() -> None:
    machine = hardware.machine("g4dn.2xlarge")
    offer, left = allocatable(machine, DISK), for_runners(machine, DISK, EKS)
    # CNI 50m, kube-proxy 100m, node monitoring 10m and 30Mi, device plugin 50m and 100Mi, identity agent nothing.
    assert (offer.cpu - left.cpu, offer.memory - left.memory) == (210, 130)
    assert offer.pods - left.pods == len(EKS) == 5
    assert (left.gpus, left.storage) == (offer.gpus, offer.storage)
    assert for_runners(machine, DISK, [DaemonSet("log-shipper", 100, 200)]).memory == offer.memory - 200
    assert for_runners(machine, DISK, ()) == offer


def test_the_template_of_a_pool_is_the_least_of_its_types() -> None:
    mixed = pool_of(instanceTypes=["g4dn.4xlarge", "g4dn.2xlarge", "g4dn.8xlarge"], disk="100Gi")
    offers = [allocatable(machine, mixed.disk) for machine in mixed.machines]
    template = least(offers)
    for field in dataclasses.fields(template):
        assert getattr(template, field.name) == min(getattr(offer, field.name) for offer in offers), field.name
    crossed = least([Offer(1, 20, 3, 4, 50), Offer(10, 2, 30, 4, 5)])
    assert crossed == Offer(1, 2, 3, 4, 5), "each resource by itself"
