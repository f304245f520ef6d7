"""The hourly cost of an OKE cluster and its machines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.pricing import Line, bundle, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.providers.worst import most_nodes, pool_line


def oke_bill(name: str, cluster: OkePools, _day: date) -> Iterator[Line]:
    """One line each for GPU pools, machines that are runners, system pool, control plane, disks and caches.

    Of a cluster that exists already the stack pays only the pools and their disks.
    """
    region = cluster.region
    most_paid = most_nodes(cluster)
    disks: list[tuple[int, int, int]] = []
    for pool_name, pool in cluster.pools.items():
        yield pool_line(name, pool_name, pool, region, most_paid[pool_name])
        disks.append((pool.idle_nodes, min(pool.nodes.max, most_paid[pool_name]), pool.disk))
    for set_name, runner in cluster.machine_runners():
        least, most = runner.span.min, runner.span.max
        item = f"machines {set_name}"
        lines = [nodes(name, item, runner.shapes, where, runner.capacity, least, most) for where in cluster.regions_of(runner)]
        # The launcher takes the first region with capacity, so the bill has the most expensive one.
        yield max(lines, key=lambda line: (line.dear.unknown, line.dear.usd))
        disks.append((least, most, runner.disk))
    if isinstance(cluster, OkeCluster):
        system = cluster.system
        disks.append((system.nodes, system.nodes, system.disk))
        gigabytes = system.memory // 1024
        node = {"oci-e5-ocpu": system.ocpus, "oci-e5-gb": gigabytes}
        what = f"{FLEX_SHAPE}, {system.ocpus} OCPU, {gigabytes} GB"
        yield bundle(name, "system pool", what, node, region, system.nodes, system.nodes)
        yield units(name, "control plane", "OKE enhanced cluster", "oke-enhanced-cluster", region, 1, 1)
    least_gib = sum(least * disk for least, _, disk in disks) / 1024
    most_gib = sum(most * disk for _, most, disk in disks) / 1024
    yield units(name, "disks", "boot volumes, balanced, GB", "oci-volume-gb", region, least_gib, most_gib)
    yield from cache_lines(name, cluster)
