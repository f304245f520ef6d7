"""Free room for pods in the system pool of an OKE cluster."""

from __future__ import annotations

from fleet.facts import hardware
from fleet.facts.offer import Offer, for_runners
from fleet.facts.versions import daemonsets
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.settings.model import Nodes
from fleet.settings.pool import SystemMachines


def oke_system_pool(cluster: OkeCluster) -> tuple[Offer, int]:
    """(free room of a node after the provider's DaemonSets, number of nodes)."""
    (machine,), disk, nodes = oke_system_machines(cluster)
    return for_runners(machine, disk, daemonsets(cluster.provider)), nodes.max


def oke_system_machines(cluster: OkeCluster) -> SystemMachines:
    """The machines of the system pool. The autoscaler leaves their number alone."""
    system = cluster.system
    machine = hardware.flexible(FLEX_SHAPE, system.ocpus, system.memory)
    return (machine,), system.disk, Nodes(min=system.nodes, max=system.nodes)
