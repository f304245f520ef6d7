"""The hourly cost of a Talos cluster: the GPU machines with a price in the stack file, used or not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line
from fleet.providers.talos.cluster import TalosCluster


def talos_bill(name: str, cluster: TalosCluster, _day: date) -> Iterator[Paid | Line]:
    """The GPU pools, whose machines stay on. The cost of hosts outside of pools is unknown and not counted."""
    for pool_name, pool in cluster.pools.items():
        machine = pool.instance_types[0]
        price = pool.price(machine, cluster.region)
        what = f"{machine}, price {'not stated' if price.unknown else 'as stated'}"
        line = Line(name, f"pool {pool_name}", what, pool.nodes.min, pool.nodes.max, price, price, ("the stack file",))
        yield Paid(name=pool_name, line=line, region=cluster.region)
