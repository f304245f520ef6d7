"""How many launchers of machines a cluster's system pool holds.

Each runner that is a machine has a launcher pod there for as long as its job. ARC's controller and a listener for each runner set
stand there too. CoreDNS and the autoscaler are not counted: keep some room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.facts.offer import Offer


@dataclass(frozen=True, slots=True)
class Asks:
    """What one pod requests: millicores and MiB."""

    cpu: int
    memory: int


CONTROLLER = Asks(100, 256)
LISTENER = Asks(50, 128)
LAUNCHER = Asks(50, 128)
OPERATOR = (Asks(200, 100), Asks(100, 128), Asks(10, 128))
"""The GPU operator, and master and garbage collector of its node feature discovery, as their charts have them (gpu-operator
v26.7.0, node-feature-discovery 0.19.0)."""
KUEUE = Asks(200, 512)
"""Kueue's one pod, in a cluster with queues."""


def launcher_room(node: Offer, nodes: int, sets: int, others: Iterable[Asks] = ()) -> int:
    """Launchers that `nodes` like nodes hold beside ARC's own pods for `sets` runner sets and the pods of `others`.

    0 where those alone fill them.
    """
    free = [[node.cpu, node.memory, node.pods] for _ in range(nodes)]
    for pod in (CONTROLLER, *others, *[LISTENER] * sets):
        first = next((left for left in free if _holds(left, pod)), None)
        if first is None:
            return 0
        first[0], first[1], first[2] = first[0] - pod.cpu, first[1] - pod.memory, first[2] - 1
    return sum(_holds(left, LAUNCHER) for left in free)


def _holds(free: list[int], pod: Asks) -> int:
    """How many such pods what is free of a node holds."""
    cpu, memory, pods = free
    return max(min(cpu // pod.cpu, memory // pod.memory, pods), 0)
