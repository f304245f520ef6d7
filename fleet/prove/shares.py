"""The CPU and memory of a node that go with one unit of its pool's resource."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts.offer import for_runners
from fleet.prove.placement import Host


@dataclass(frozen=True, slots=True)
class Share:
    """What goes with one unit of a pool's resource: millicores and MiB of the node that has the least of each."""

    cpu: int
    memory: int


def share(host: Host) -> Share:
    """What pods have on a pool's node after kubelet and DaemonSets, by unit of its resource."""
    offers = [(for_runners(machine, host.disk, host.daemonsets), host.units(machine)) for machine in host.machines]
    return Share(
        min(max(offer.cpu, 0) // units for offer, units in offers), min(max(offer.memory, 0) // units for offer, units in offers)
    )
