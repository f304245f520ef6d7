"""The hourly cost of described nodes: as the settings state it, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line
from fleet.providers.kubernetes.cluster import KubernetesCluster


def kubernetes_bill(name: str, cluster: KubernetesCluster, _day: date) -> Iterator[Paid | Line]:
    """The pools. Nothing is bought, so a price is what `usdPerHour` says. The rest of the cluster is not counted."""
    for pool_name, pool in cluster.pools.items():
        hour = pool.price(pool.instance_types[0], cluster.region)
        what = f"{' or '.join(pool.instance_types)} of the cluster, price {'not stated' if hour.unknown else 'as stated'}"
        line = Line(name, f"pool {pool_name}", what, pool.nodes.min, pool.nodes.max, hour, hour, ("the stack file",))
        yield Paid(name=pool_name, line=line, region=cluster.region)
