"""The share of a node's CPU and memory for one unit of its pool's resource."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.offer import for_runners
from fleet.prove.placement import Host


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
