"""The hourly cost of a Talos cluster: the GPU machines with a price in the table, used or not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line, nodes
from fleet.providers.talos.cluster import TalosCluster


def talos_bill(name: str, cluster: TalosCluster, _day: date) -> Iterator[Paid | Line]:
    """The GPU pools, whose machines stay on. The cost of hosts outside of pools is unknown and not counted."""
    for pool_name, pool in cluster.pools.items():
        least, most = pool.nodes.min, pool.nodes.max
        line = nodes(name, f"pool {pool_name}", pool.instance_types, cluster.region, pool.capacity, least, most)
        yield Paid(name=pool_name, line=line, region=cluster.region)
