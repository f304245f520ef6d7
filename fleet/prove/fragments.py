"""Pools whose runner sets can take each other's NUMA nodes, so that kubelet rejects a runner of a node with enough room.

The scheduler does not know NUMA nodes (pytorch/ci-infra#696: one pool for 1, 2 and 4 GPUs under single-numa-node).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations

from fleet.facts.hardware import Machine
from fleet.facts.offer import Offer
from fleet.facts.remark import todo
from fleet.prove import topology
from fleet.prove.placement import Placement
from fleet.settings.runner import PodRunner

_Strict = tuple[Placement, PodRunner, topology.Aligned]
"""A placement on a pool whose kubelet can reject pods, its runner, and what the runner asks of NUMA nodes."""


def fragmented(placements: Iterable[Placement]) -> Iterator[str]:
    """A line for each set that pods of another set of its pool can keep off a node, with enough room on the node."""
    pools: dict[tuple[str, str], list[_Strict]] = {}
    for placement in placements:
        runner, managers, at = placement.runner, placement.host.managers, (placement.cluster, placement.host.name)
        if isinstance(runner, PodRunner) and managers is not None and topology.strict(managers) and not placement.error:
            pools.setdefault(at, []).append((placement, runner, topology.aligned(runner, managers)))
    for sets in pools.values():
        for large, small in permutations(sets, 2):
            yield from _blocks(large, small)


def _blocks(strict: _Strict, beside: _Strict) -> Iterator[str]:
    (large, runner, pod), (small, small_runner, other) = strict, beside
    for fit in large.fits:
        count = _blocking(fit.machine, fit.offer.gpus, pod, other)
        if count and _has_room(runner, small_runner, count, fit.offer):
            yield todo(
                f"{large.cluster}/{large.host.name}: {count} {'runner' if count == 1 else 'runners'} of {small.runner_set} on a "
                f"{fit.machine.name} can make its kubelet reject {large.runner_set} ({topology.ERROR}) with "
                f"{fit.offer.gpus - count * other.gpus} of {fit.offer.gpus} {large.host.counted} free, because the scheduler "
                f"does not know NUMA nodes; give {large.runner_set} a pool of its own, or set topologyManagerPolicy best-effort"
            )


@cache
def _blocking(machine: Machine, units: int, pod: topology.Aligned, other: topology.Aligned) -> int | None:
    """The fewest pods of the one kind on a machine that leave no NUMA node with room for the other. None if they cannot."""
    nodes = topology.empty(machine, units)
    agreed = nodes is not None and {*nodes.sizes(pod).values(), *nodes.sizes(other).values()} == {1}
    return nodes.blocked_by(pod, other) if nodes is not None and agreed else None


def _has_room(large: PodRunner, small: PodRunner, count: int, offer: Offer) -> bool:
    """Whether the scheduler sees room for one large runner beside `count` small ones."""
    rows = (
        (offer.gpus, small.gpus, large.gpus),
        (offer.cpu, small.cpu.request, large.cpu.request),
        (offer.memory, small.memory.request, large.memory.request),
        (offer.storage, small.scratch, large.scratch),
    )
    return all(free - count * small_size >= large_size for free, small_size, large_size in rows)
