"""The hourly cost of an EKS cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.pricing import Line, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.support import billed
from fleet.settings.model import memory_text


def eks_bill(name: str, cluster: EksPools, day: date) -> Iterator[Line]:
    """One line each for GPU pools, system pool, control plane, NAT gateways, disks, caches and buckets, at the prices of a day.

    Of a cluster that exists already the stack pays only the pools, their disks and build caches.
    """
    region = cluster.region
    groups = [(pool.nodes, pool.disk) for pool in cluster.pools.values()]
    for pool_name, pool in cluster.pools.items():
        least_nodes, most_nodes = pool.paid_nodes
        yield nodes(name, f"pool {pool_name}", pool.instance_types, region, pool.capacity, least_nodes, most_nodes)
    if isinstance(cluster, EksCluster):
        system = cluster.system
        yield nodes(name, "system pool", system.instance_types, region, "on-demand", system.nodes.min, system.nodes.max)
        item, support = billed(cluster.kubernetes_version, day)
        yield units(name, "control plane", support, item, region, 1, 1)
        if gateways := cluster.network.nat_count(len(cluster.network_zones)):
            yield units(name, "NAT gateways", "without traffic", "nat-gateway", region, gateways, gateways)
        groups.append((system.nodes, system.disk))
    least = sum(scale.min * disk for scale, disk in groups) / 1024
    most = sum(scale.max * disk for scale, disk in groups) / 1024
    yield units(name, "disks", "gp3, GiB", "gp3-gb", region, least, most)
    yield from cache_lines(name, cluster)
    if cluster.build_caches is not None:
        for bucket, cache in cluster.build_caches.buckets.items():
            what = f"S3, {memory_text(cache.size)} at worst, without requests"
            yield units(name, f"build cache {bucket}", what, "s3-gb", region, 0, cache.size / 1024)
