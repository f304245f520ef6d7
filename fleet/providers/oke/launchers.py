"""Free room for pods in the system pool of an OKE cluster."""

from __future__ import annotations

from fleet.facts import hardware
from fleet.facts.offer import Offer, for_runners
from fleet.facts.versions import daemonsets
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.nodes import FLEX_SHAPE


def oke_system_pool(cluster: OkeCluster) -> tuple[Offer, int]:
    """(free room of a node after the provider's DaemonSets, number of nodes)."""
    system = cluster.system
    machine = hardware.flexible(FLEX_SHAPE, system.ocpus, system.memory)
    return for_runners(machine, system.disk, daemonsets(cluster.provider)), system.nodes
