"""The hourly cost of an EKS cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.pricing import Line, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.support import billed


def eks_bill(name: str, cluster: EksPools, day: date) -> Iterator[Line]:
    """One line each for GPU pools, system pool, control plane, NAT gateways, disks and caches, at the prices of a day.

    Of a cluster that exists already the stack pays only the pools and their disks.
    """
    region = cluster.region
    disks: list[tuple[int, int, int]] = []
    for pool_name, pool in cluster.pools.items():
        least_nodes, most_nodes = pool.paid_nodes
        yield nodes(name, f"pool {pool_name}", pool.instance_types, region, pool.capacity, least_nodes, most_nodes)
        waiting, most_waiting = cluster.warm_machines(pool)
        if pool.warm is not None and pool.warm.state == "running":
            yield nodes(name, f"warm pool {pool_name}", pool.instance_types, region, pool.capacity, waiting, most_waiting)
        disks.append((pool.idle_nodes + waiting, pool.nodes.max + most_waiting, pool.disk))
    if isinstance(cluster, EksCluster):
        system = cluster.system
        yield nodes(name, "system pool", system.instance_types, region, "on-demand", system.nodes.min, system.nodes.max)
        item, support = billed(cluster.kubernetes_version, day)
        yield units(name, "control plane", support, item, region, 1, 1)
        if gateways := cluster.network.nat_count(len(cluster.network_zones)):
            yield units(name, "NAT gateways", "without traffic", "nat-gateway", region, gateways, gateways)
        disks.append((system.nodes.min, system.nodes.max, system.disk))
    least = sum(least * disk for least, _, disk in disks) / 1024
    most = sum(most * disk for _, most, disk in disks) / 1024
    yield units(name, "disks", "gp3, GiB", "gp3-gb", region, least, most)
    yield from cache_lines(name, cluster)
