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


def share(host: Host) -> Share:
    """The CPU and memory that kubelet and DaemonSets leave to pods on a pool's node, per unit of its resource."""
    offers = [(for_runners(machine, host.disk, host.daemonsets), host.units(machine)) for machine in host.machines]
    return Share(
        min(max(offer.cpu, 0) // units for offer, units in offers), min(max(offer.memory, 0) // units for offer, units in offers)
    )


def flavor_share(cluster: Cluster, queues: Queues, flavor: str) -> Share:
    """The share of a ResourceFlavor: the least that any of its pools leaves for one unit."""
    shares = [share(pool_host(cluster, pool)) for pool in queues.pools_of(flavor)]
    return Share(min(each.cpu for each in shares), min(each.memory for each in shares))
