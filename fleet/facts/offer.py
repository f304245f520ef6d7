"""What a node offers to pods: the machine without the parts that kubelet, the system and the DaemonSets use."""

import math
from collections.abc import Iterable
from dataclasses import astuple, replace

from fleet.facts import hardware
from fleet.facts.pods import Requests
from fleet.facts.record import Record

DISK_SHARE, DISK_KEPT = 0.9, 1024


_Kept = tuple[int, int, int]
"""The millicores and MiB that kubelet and the system keep, and the most pods."""


class Offer(Record):
    """The resources of one node for pods: millicores, MiB of memory, MiB of ephemeral storage, GPUs, number of pods."""

    cpu: int
    memory: int
    storage: int
    gpus: int
    pods: int


def allocatable(machine: hardware.Machine, disk: int) -> Offer:
    """What a machine with a root disk of `disk` MiB offers after kubelet's reservations, by the rules of the machine's cloud."""
    cpu, memory, pods = _KEPT[machine.cloud](machine)
    # A virtual machine has less memory than its type is sold with. Karpenter assumes the same share (vm-memory-overhead-percent).
    memory = int(machine.memory_mib * 0.925) - memory
    # kubelet evicts pods when less than a tenth of the root disk is free, and reserves 1 GiB.
    storage = int(disk * DISK_SHARE) - DISK_KEPT
    return Offer(machine.vcpus * 1000 - cpu, memory, storage, machine.gpus, pods)


def for_runners(machine: hardware.Machine, disk: int, daemonsets: Iterable[Requests]) -> Offer:
    """What remains for runner pods after kubelet and the DaemonSets."""
    return less(allocatable(machine, disk), daemonsets)


def less(offer: Offer, pods: Iterable[Requests]) -> Offer:
    """What remains of an offer when these pods run."""
    running = tuple(pods)
    cpu, memory = sum(pod.cpu for pod in running), sum(pod.memory for pod in running)
    return replace(offer, cpu=offer.cpu - cpu, memory=offer.memory - memory, pods=offer.pods - len(running))


def least(offers: Iterable[Offer]) -> Offer:
    """The least that any of these nodes offers of each resource, as in the autoscaler's template of a node."""
    return Offer(*map(min, zip(*map(astuple, offers), strict=True)))


# -- AWS ---------------------------------------------------------------------------------------------------------------


def _nodeadm(machine: hardware.Machine) -> _Kept:
    """EKS nodes: awslabs/amazon-eks-ami, nodeadm/internal/kubelet/config.go.

    Reserved: 11 MiB for each pod of the ENI formula and 255 MiB, 6 / 1 / 0.5 / 0.25 % of the cores, 100 MiB before eviction, a
    tenth of the disk and 1 GiB. Managed node groups limit the pods to 110, or to 250 from 30 vCPUs on.
    """
    pods = machine.max_pods or 110
    cores = int(sum((60, 10, 5, 5)[: machine.vcpus]) + 2.5 * max(machine.vcpus - 4, 0))
    return cores, 255 + 11 * pods + 100, min(pods, 110 if machine.vcpus < 30 else 250)


# -- OCI ---------------------------------------------------------------------------------------------------------------

_PODS = 110
"""OKE's limit. The network allows the same number on every GPU shape."""
# (from this GB on, reserved share above it, reserved GB up to it)
_MEMORY_STEPS = ((128, 0.02, 9.32), (16, 0.06, 2.6), (8, 0.10, 1.8), (4, 0.20, 1.0), (0, 0.25, 0.0))
_FIRST_CORES = (0, 60, 70, 80, 85, 90)


def _oke(machine: hardware.Machine) -> _Kept:
    """OKE nodes: oracle/karpenter-provider-oci b26d6563, pkg/providers/instancetype/provider.go, which copies OKE's own script.

    Kube-reserved depends on cores and GB in steps. System-reserved is 100m and 100Mi; 100 MiB are kept before eviction. That
    code counts an x86 core twice, and the larger reservation is the safe one.
    """
    cores = machine.vcpus * 2 if machine.arch == "x86_64" else machine.vcpus
    kept_cpu = _FIRST_CORES[cores] if cores < len(_FIRST_CORES) else 90 + math.ceil(2.5 * (cores - 5))
    gigabytes = machine.memory_mib / 1024
    kept_memory = next(base + share * (gigabytes - start) for start, share, base in _MEMORY_STEPS if gigabytes > start)
    return kept_cpu + 100, math.ceil(kept_memory * 1024) + 100 + 100, min(machine.max_pods or _PODS, _PODS)


# -- own machines ------------------------------------------------------------------------------------------------------


def _talos(machine: hardware.Machine) -> _Kept:
    """Talos nodes: siderolabs/talos v1.13.9 pkg/machinery/constants, KubeletSystemReserved*.

    Reserved: 50m and 384 MiB for the system, 100 MiB before eviction, a tenth of the disk and, to be safe, 1 GiB of disk where
    Talos keeps 256 MiB. How much memory firmware and kernel use is not known; the share of a virtual machine is the safe value.
    """
    # The number of pods is kubelet's default, which Talos does not change.
    return 50, 384 + 100, _PODS


_KEPT = {"aws": _nodeadm, "oci": _oke, hardware.OWNED: _talos}
