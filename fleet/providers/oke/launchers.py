"""How many launchers of machines the system pool of an OKE cluster holds."""

from __future__ import annotations

from fleet.facts import hardware
from fleet.facts.offer import Offer, for_runners
from fleet.facts.versions import daemonsets
from fleet.prove.launchers import KUEUE, OPERATOR, launcher_room
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.settings.enablement import GPU_OPERATOR


def oke_launchers(cluster: OkeCluster) -> int:
    """Launchers that the whole system pool holds beside ARC's own pods; 0 where those alone fill it."""
    operator = OPERATOR if cluster.enablement == GPU_OPERATOR else ()
    queues = (KUEUE,) if cluster.queues is not None else ()
    return launcher_room(_system_node(cluster), cluster.system.nodes, len(cluster.runners), (*operator, *queues))


def _system_node(cluster: OkeCluster) -> Offer:
    """What one node of the system pool has for pods beside the provider's DaemonSets."""
    system = cluster.system
    everywhere = [row for row in daemonsets(cluster.provider, cluster.enablement) if cluster.provider in row.providers]
    return for_runners(hardware.flexible(FLEX_SHAPE, system.ocpus, system.memory), system.disk, everywhere)
