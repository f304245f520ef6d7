"""The hourly cost of an EKS cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.pricing import Line, bundle, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.ecr import KEPT_IMAGES
from fleet.providers.eks.support import billed
from fleet.providers.worst import most_nodes, pool_line
from fleet.settings.model import memory_text

SNAPSHOT = "ebs-snapshot-gb"
"""Item of `data/prices.csv`: a GiB of an EBS snapshot. EC2 bills only blocks that have data, so a whole volume is the most."""


def eks_bill(name: str, cluster: EksPools, day: date) -> Iterator[Line]:
    """One line each for GPU pools, system pool, control plane, NAT gateways, registry, disks, caches, AMIs and buckets.

    Prices are those of a day. A pool's schedules add their average of a week. Of a cluster that exists already the stack pays
    only the pools, their disks and build caches. A faster disk costs extra on each node.
    """
    region = cluster.region
    most = most_nodes(cluster)
    disks: list[tuple[float, int, int]] = []
    for pool_name, pool in cluster.pools.items():
        yield pool_line(name, pool_name, pool, region, most[pool_name])
        waiting, most_waiting = cluster.warm_machines(pool)
        if pool.warm is not None and pool.warm.state == "running":
            yield nodes(name, f"warm pool {pool_name}", pool.instance_types, region, pool.capacity, waiting, most_waiting)
        least = pool.idle_nodes + pool.scheduled_nodes + waiting
        disks.append((least, min(pool.nodes.max, most[pool_name]) + most_waiting, pool.disk))
    if isinstance(cluster, EksCluster):
        system = cluster.system
        yield nodes(name, "system pool", system.instance_types, region, "on-demand", system.nodes.min, system.nodes.max)
        item, support = billed(cluster.kubernetes_version, day)
        yield units(name, "control plane", support, item, region, 1, 1)
        if gateways := cluster.network.nat_count(len(cluster.network_zones)):
            yield units(name, "NAT gateways", "without traffic", "nat-gateway", region, gateways, gateways)
        disks.append((system.nodes.min, system.nodes.max, system.disk))
        if (registry := cluster.registry) is not None:
            yield units(name, "registry key", "KMS, with two rotations at worst", "kms-key", region, 1, 3)
            if registry.runner_image is not None and (size := registry.runner_image.size_gb) is not None:
                yield units(name, "registry images", "of runners, GB", "ecr-gb", region, size, size * KEPT_IMAGES)
    least_gib = sum(least * disk for least, _, disk in disks) / 1024
    most_gib = sum(most * disk for _, most, disk in disks) / 1024
    yield units(name, "disks", "gp3, GiB", "gp3-gb", region, least_gib, most_gib)
    for pool_name, pool in cluster.pools.items():
        if extra := pool.root_disk.extra:
            waiting, most_waiting = cluster.warm_machines(pool)
            yield bundle(
                name,
                f"disks of pool {pool_name}",
                str(pool.root_disk),
                extra,
                region,
                pool.idle_nodes + pool.scheduled_nodes + waiting,
                min(pool.nodes.max, most[pool_name]) + most_waiting,
            )
    yield from cache_lines(name, cluster)
    for ami_name, ami in cluster.amis.items():
        if ami.built is not None:
            copies, gib = 1 + len(ami.regions), ami.disk / 1024
            what = "snapshots of its images, GiB at most"
            yield units(name, f"AMI {ami_name}", what, SNAPSHOT, region, copies * gib, copies * gib * (ami.keep + 1))
    if cluster.build_caches is not None:
        for bucket, cache in cluster.build_caches.buckets.items():
            what = f"S3, {memory_text(cache.size)} at worst, without requests"
            yield units(name, f"build cache {bucket}", what, "s3-gb", region, 0, cache.size / 1024)
