"""The machines of the system pool of an OKE cluster."""

from __future__ import annotations

from fleet.facts import hardware
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.settings.model import Nodes
from fleet.settings.pool import SystemMachines

SURGE = 1
"""How many more nodes OKE starts while it replaces nodes of the system pool."""


def oke_system_machines(cluster: OkeCluster) -> SystemMachines:
    """The machines of the system pool. The autoscaler leaves their number alone."""
    system = cluster.system
    machine = hardware.flexible(FLEX_SHAPE, system.ocpus, system.memory)
    return (machine,), system.disk, Nodes(min=system.nodes, max=system.nodes)
