"""How the nodes of an EKS pool split over its zones: one managed node group per zone.

An Auto Scaling group over several zones ends busy instances to balance them (AZRebalance), whatever runs there, and the EKS API
cannot turn that off (aws/containers-roadmap#1453). In a group of one zone there is nothing to balance.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.facts.bill import part
from fleet.settings.model import Nodes, Scale


def zone_groups(zones: Sequence[str], nodes: Scale) -> dict[str, Nodes]:
    """The sizes of a pool's node groups by zone, in the order of `zones`. They sum to `nodes`.

    Each zone gets an equal share of min and of max. The first zones get one more each until nothing remains. A zone whose share
    of max is 0 gets no group, because EKS requires a maximum of 1 or more.
    """
    return {
        zone: Nodes(min=part(nodes.min, len(zones), index), max=most)
        for index, zone in enumerate(zones)
        if (most := part(nodes.max, len(zones), index))
    }
