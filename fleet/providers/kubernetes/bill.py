"""The hourly cost of described nodes: as the settings state it, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.pricing import Line
from fleet.providers.kubernetes.cluster import KubernetesCluster


def kubernetes_bill(name: str, cluster: KubernetesCluster, _day: date) -> Iterator[Line]:
    """One line per pool. Nothing is bought, so a price is what `usdPerHour` says. The rest of the cluster is not counted."""
    for pool_name, pool in cluster.pools.items():
        each = pool.price(pool.instance_types[0], cluster.region)
        what = f"{' or '.join(pool.instance_types)} of the cluster, price {'not stated' if each.unknown else 'as stated'}"
        yield Line(name, f"pool {pool_name}", what, pool.idle_nodes, pool.nodes.max, each, each, ("the stack file",))
