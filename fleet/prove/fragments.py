"""Pools whose runner sets can take each other's NUMA nodes, so that kubelet rejects a runner of a node with enough room.

The scheduler does not know NUMA nodes (pytorch/ci-infra#696: one pool for 1, 2 and 4 GPUs under single-numa-node).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleet.facts.offer import Offer
from fleet.prove import topology
from fleet.prove.placement import Placement
from fleet.settings.runner import PodRunner


def fragmented(placements: Iterable[Placement]) -> Iterator[str]:
    """A line for each set that pods of another set of its pool can keep off a node, with enough room on the node."""
    found = [each for each in placements if isinstance(each.runner, PodRunner) and not each.error]
    for large in found:
        for small in found:
            if large is not small and (large.cluster, large.host.name) == (small.cluster, small.host.name):
                yield from _blocks(large, small)


def _blocks(large: Placement, small: Placement) -> Iterator[str]:
    managers = large.host.managers
    policy = topology.strict(managers)
    if managers is None or not policy or not isinstance(large.runner, PodRunner) or not isinstance(small.runner, PodRunner):
        return
    pod, other = topology.aligned(large.runner, managers), topology.aligned(small.runner, managers)
    for fit in large.fits:
        nodes = topology.empty(fit.machine, fit.offer.gpus)
        agreed = nodes is not None and {*nodes.sizes(pod).values(), *nodes.sizes(other).values()} == {1}
        count = nodes.blocked_by(pod, other) if nodes is not None and agreed else None
        if not count or not _has_room(large.runner, small.runner, count, fit.offer):
            continue
        yield (
            f"{large.cluster}/{large.host.name}: {count} {'runner' if count == 1 else 'runners'} of {small.runner_set} on a "
            f"{fit.machine.name} can make its kubelet reject {large.runner_set} ({topology.ERROR}) with "
            f"{fit.offer.gpus - count * other.gpus} of {fit.offer.gpus} {large.host.counted} free, because the scheduler does "
            f"not know NUMA nodes; give {large.runner_set} a pool of its own, or set topologyManagerPolicy best-effort"
        )


def _has_room(large: PodRunner, small: PodRunner, count: int, offer: Offer) -> bool:
    """Whether the scheduler sees room for one large runner beside `count` small ones."""
    rows = (
        (offer.gpus, small.gpus, large.gpus),
        (offer.cpu, small.cpu.request, large.cpu.request),
        (offer.memory, small.memory.request, large.memory.request),
        (offer.storage, small.scratch, large.scratch),
    )
    return all(left - count * taken >= wanted for left, taken, wanted in rows)
