"""Where each runner lands: what a node really offers, how many runners fit one, which GPUs are stranded.

A runner set is bound to one pool and must fit every instance type of it: the autoscaler reckons with the smallest, and any
of them may be bought. Only requests count, as they do for the scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet import hardware
from fleet.model import cpu_text, memory_text
from fleet.pool import Pool
from fleet.runner import PodRunner
from fleet.settings import Fleet
from fleet.versions import DAEMONSETS, DaemonSet

# A virtual machine shows less memory than its type's name; Karpenter reckons with the same share (vm-memory-overhead-percent).
_VM_MEMORY = 0.925
# Of the root disk, a tenth stays free before eviction and 1 GiB is kubelet's.
_DISK_SHARE = 0.9
_DISK_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Offer:
    """What one node has for pods: millicores, MiB, MiB of ephemeral storage, GPUs, pods."""

    cpu: int
    memory: int
    storage: int
    gpus: int
    pods: int


def allocatable(machine: hardware.Machine, disk: int) -> Offer:
    """What kubelet leaves of a machine with a root disk of `disk` MiB.

    The reservations are nodeadm's (awslabs/amazon-eks-ami, nodeadm/internal/kubelet/config.go): 11 MiB for each pod of the ENI
    formula and 255 MiB, 6 / 1 / 0.5 / 0.25 % of the cores, 100 MiB before eviction, a tenth of the disk and 1 GiB. Managed node
    groups cap the pods themselves at 110, or 250 from 30 vCPU on.
    """
    pods = machine.max_pods or 110
    return Offer(
        cpu=machine.vcpus * 1000 - _reserved_cpu(machine.vcpus),
        memory=int(machine.memory_mib * _VM_MEMORY) - (255 + 11 * pods) - 100,
        storage=int(disk * _DISK_SHARE) - _DISK_KEPT,
        gpus=machine.gpus,
        pods=min(pods, 110 if machine.vcpus < 30 else 250),
    )


def _reserved_cpu(vcpus: int) -> int:
    shares = [60] * min(vcpus, 1) + [10] * min(max(vcpus - 1, 0), 1) + [5] * min(max(vcpus - 2, 0), 2)
    return int(sum(shares) + 2.5 * max(vcpus - 4, 0))


def smallest_offer(pool: Pool) -> Offer:
    """What any node of a pool has at least, over its instance types: the template of the autoscaler."""
    offers = [allocatable(machine, pool.disk) for machine in pool.machines]
    return Offer(
        cpu=min(offer.cpu for offer in offers),
        memory=min(offer.memory for offer in offers),
        storage=min(offer.storage for offer in offers),
        gpus=pool.gpus_per_node,
        pods=min(offer.pods for offer in offers),
    )


def for_runners(machine: hardware.Machine, disk: int, daemonsets: Iterable[DaemonSet] = tuple(DAEMONSETS.values())) -> Offer:
    """What is left for runner pods after kubelet and the DaemonSets."""
    offer = allocatable(machine, disk)
    daemons = tuple(daemonsets)
    return Offer(
        cpu=offer.cpu - sum(daemon.cpu for daemon in daemons),
        memory=offer.memory - sum(daemon.memory for daemon in daemons),
        storage=offer.storage,
        gpus=offer.gpus,
        pods=offer.pods - len(daemons),
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """Runners of one class on one machine: how many, what runs out first, how many GPUs stay idle when it is full."""

    machine: hardware.Machine
    offer: Offer
    count: int
    limited_by: str
    stranded: int


def fit(runner: PodRunner, machine: hardware.Machine, disk: int) -> Fit:
    """How many runners of a class one machine holds."""
    offer = for_runners(machine, disk)
    rooms = _rooms(runner, offer)
    count = min(rooms.values())
    limited_by = next(name for name, room in rooms.items() if room == count)
    return Fit(machine, offer, count, limited_by, offer.gpus - count * runner.gpus)


def _rooms(runner: PodRunner, offer: Offer) -> dict[str, int]:
    """How many runners each resource alone would hold."""
    return {
        "GPUs": offer.gpus // runner.gpus,
        "CPU": max(offer.cpu, 0) // runner.cpu.request,
        "memory": max(offer.memory, 0) // runner.memory.request,
        "disk": max(offer.storage, 0) // runner.scratch,
        "pods": offer.pods,
    }


@dataclass(frozen=True, slots=True)
class Placement:
    """One runner set on its pool. `capacity` is how many runners the pool holds when full, on its worst instance type."""

    cluster: str
    runner_set: str
    runner: PodRunner
    pool_name: str
    pool: Pool
    fits: tuple[Fit, ...]

    @property
    def worst(self) -> Fit:
        """The instance type that holds the fewest."""
        return min(self.fits, key=lambda found: found.count)

    @property
    def capacity(self) -> int:
        """Runners that the whole pool holds, reckoned on the worst type."""
        return self.worst.count * self.pool.nodes.max

    @property
    def error(self) -> str:
        """Why the runner cannot be placed, or nothing."""
        unfit = [found for found in self.fits if found.count == 0]
        return "; ".join(_unfit(self.runner, found, self.pool.disk) for found in unfit) + _mend(self) if unfit else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What an owner should know though it works."""
        return tuple(_remarks(self))


def place(fleet: Fleet) -> tuple[Placement, ...]:
    """Every runner set on its pool, in the order of the config."""
    return tuple(
        Placement(
            cluster,
            name,
            runner,
            runner.pool,
            pool := fleet.clusters[cluster].pools[runner.pool],
            tuple(fit(runner, machine, pool.disk) for machine in pool.machines),
        )
        for cluster, name, runner in fleet.runner_sets()
    )


def overbooked(placements: Iterable[Placement]) -> Iterator[str]:
    """A line for each pool whose sets together may ask for more runners than it holds."""
    by_pool: dict[tuple[str, str], list[Placement]] = {}
    for placement in placements:
        by_pool.setdefault((placement.cluster, placement.pool_name), []).append(placement)
    for (cluster, pool), sets in by_pool.items():
        if any(placement.error for placement in sets):
            continue
        # Share of a node that one runner takes on the worst type; sets of one pool add up.
        needed = math.ceil(sum(found.runner.scale.max / found.worst.count for found in sets) - 1e-9)
        most = sets[0].pool.nodes.max
        if needed > most:
            asked = " + ".join(f"{found.runner.scale.max} {found.runner_set}" for found in sets)
            yield f"{cluster}/{pool}: {asked} runners need {needed} nodes, the pool has at most {most}: jobs beyond that wait"


class PlacementError(Exception):
    """A runner set that no node of its pool can hold. The message has one line for each."""


def require(placements: Iterable[Placement]) -> None:
    """Raise PlacementError when a runner set cannot be placed."""
    errors = [
        f"{placement.cluster}.runners.{placement.runner_set}: {placement.error}" for placement in placements if placement.error
    ]
    if errors:
        raise PlacementError("\n".join(errors))


def _unfit(runner: PodRunner, found: Fit, disk: int) -> str:
    offer, machine = found.offer, found.machine
    if found.limited_by == "GPUs":
        return f"asks {runner.gpus} GPUs, {machine.name} has {machine.gpus}"
    # Every shortage at once: mending one only to meet the next is a tedious way to size a runner.
    rows = (
        (
            runner.cpu.request,
            offer.cpu,
            f"{cpu_text(runner.cpu.request)} CPU",
            f"{cpu_text(max(offer.cpu, 0))} of {machine.vcpus}",
        ),
        (
            runner.memory.request,
            offer.memory,
            memory_text(runner.memory.request),
            f"{max(offer.memory, 0)}Mi of {memory_text(machine.memory_mib)}",
        ),
        (
            runner.scratch,
            offer.storage,
            f"{memory_text(runner.scratch)} of disk",
            f"{max(offer.storage, 0)}Mi of {memory_text(disk)}",
        ),
        (1, offer.pods, "room for a pod", f"{max(offer.pods, 0)} of {machine.max_pods}"),
    )
    asked, left = zip(*((want, rest) for needed, has, want, rest in rows if needed > has), strict=True)
    return f"asks {' and '.join(asked)}, {machine.name} leaves pods {' and '.join(left)}"


def _mend(placement: Placement) -> str:
    best = smallest(placement.runner, placement.pool)
    short = {room for found in placement.fits for room, count in _rooms(placement.runner, found.offer).items() if not count}
    if short == {"disk"}:
        return f"; raise the pool's disk to {math.ceil((placement.runner.scratch + _DISK_KEPT) / _DISK_SHARE / 1024)}Gi"
    return (
        f"; the smallest type that would do is {best.name}" if best else "; no type of this GPU and cloud would do: ask for less"
    )


def smallest(runner: PodRunner, pool: Pool) -> hardware.Machine | None:
    """The smallest machine of the pool's cloud and GPU that holds the runner: fewest GPUs, then least memory and vCPU."""
    first = pool.machines[0]
    fitting = (
        machine
        for machine in hardware.machines(first.cloud)
        if machine.gpu == first.gpu and fit(runner, machine, pool.disk).count > 0
    )
    return min(fitting, key=lambda machine: (machine.gpus, machine.memory_mib, machine.vcpus), default=None)


def _remarks(placement: Placement) -> Iterator[str]:
    if placement.error:
        return
    worst, runner = placement.worst, placement.runner
    if worst.stranded:
        why = (
            f"{worst.limited_by} runs out first" if worst.limited_by != "GPUs" else f"runners of {runner.gpus} do not divide them"
        )
        yield f"{worst.stranded} of {worst.offer.gpus} GPUs of a full {worst.machine.name} stay idle: {why}"
    if runner.memory.limit > worst.offer.memory:
        limit = memory_text(runner.memory.limit)
        yield f"memory limit {limit} is above the {worst.offer.memory}Mi of {worst.machine.name}: a job may be evicted before it"
