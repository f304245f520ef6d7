"""How many launchers of machines a cluster's system pool holds.

Each runner that is a machine has a launcher pod there for as long as its job. ARC's controller and a listener for each runner set
stand there too. CoreDNS and the autoscaler are not counted: keep some room.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet import hardware
from fleet.enablement import GPU_OPERATOR
from fleet.offer import Offer, for_runners
from fleet.providers.oke import FLEX_SHAPE, OkeCluster
from fleet.versions import daemonsets


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


def system_node(cluster: OkeCluster) -> Offer:
    """What one node of the system pool has for pods beside the provider's DaemonSets."""
    system = cluster.system
    everywhere = [row for row in daemonsets(cluster.provider, cluster.enablement) if cluster.provider in row.providers]
    return for_runners(hardware.flexible(FLEX_SHAPE, system.ocpus, system.memory), system.disk, everywhere)


def launcher_room(cluster: OkeCluster) -> int:
    """Launchers that the whole system pool holds beside ARC's own pods; 0 where those alone fill it."""
    node = system_node(cluster)
    nodes = [[node.cpu, node.memory, node.pods] for _ in range(cluster.system.nodes)]
    operator = OPERATOR if cluster.enablement == GPU_OPERATOR else ()
    for pod in (CONTROLLER, *operator, *[LISTENER] * len(cluster.runners)):
        first = next((free for free in nodes if _holds(free, pod)), None)
        if first is None:
            return 0
        first[0], first[1], first[2] = first[0] - pod.cpu, first[1] - pod.memory, first[2] - 1
    return sum(_holds(free, LAUNCHER) for free in nodes)


def _holds(free: list[int], pod: Asks) -> int:
    """How many such pods what is free of a node holds."""
    cpu, memory, pods = free
    return max(min(cpu // pod.cpu, memory // pod.memory, pods), 0)
