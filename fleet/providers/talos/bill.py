"""What a Talos cluster costs an hour: the machines that the table has a price of, used or not."""

from __future__ import annotations

from datetime import date

from fleet.facts.pricing import Line, nodes
from fleet.providers.talos.cluster import TalosCluster


def talos_bill(name: str, cluster: TalosCluster, _day: date) -> tuple[Line, ...]:
    """A line a GPU pool. Its machines stay on; what hosts of no pool cost is not known, and they are not counted."""
    return tuple(
        nodes(name, f"pool {pool_name}", pool.instance_types, cluster.region, pool.capacity, pool.nodes.min, pool.nodes.max)
        for pool_name, pool in cluster.pools.items()
    )
