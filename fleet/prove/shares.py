"""The share of a node's CPU and memory for one unit of its pool's resource."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.offer import for_runners
from fleet.prove.placement import Host, pool_host
from fleet.settings.cluster import Cluster
from fleet.settings.queues import Queues


@dataclass(frozen=True, slots=True)
class Share:
    """The millicores and MiB for one unit of a pool's resource, on the node with the least of each."""

    cpu: int
    memory: int


def share(*hosts: Host) -> Share:
    """The CPU and memory that kubelet and DaemonSets leave to pods on a node of one of the pools, per unit of its resource."""
    offers = [
        (for_runners(machine, host.disk, host.daemonsets), host.units(machine)) for host in hosts for machine in host.machines
    ]
    return Share(
        min(max(offer.cpu, 0) // units for offer, units in offers), min(max(offer.memory, 0) // units for offer, units in offers)
    )


def flavor_share(cluster: Cluster, queues: Queues, host: Host) -> Share:
    """The share of the ResourceFlavor that has a pool: the least that any pool of the flavor leaves for one unit."""
    beside = [name for name in queues.pools_of(queues.flavor_of(host.name) or host.name) if name != host.name]
    return share(host, *(pool_host(cluster, name) for name in beside))
