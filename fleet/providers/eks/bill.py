"""The hourly cost of an EKS cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid, assumption
from fleet.facts.pricing import Line, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.ecr import KEPT_IMAGES
from fleet.providers.eks.support import billed
from fleet.settings.model import memory_text

SNAPSHOT = "ebs-snapshot-gb"
"""Item of `data/prices.csv`: a GiB of an EBS snapshot. EC2 bills only blocks that have data, so a whole volume is the most."""


def eks_bill(name: str, cluster: EksPools, day: date) -> Iterator[Paid | Line]:
    """GPU pools, system pool, control plane with its logs, NAT gateways with addresses, registry, caches, AMIs and buckets.

    Prices are those of a day. Of a cluster that exists already the stack pays only the pools, their disks and build caches.
    """
    region = cluster.region
    gateways = cluster.network.nat_count(len(cluster.network_zones)) if isinstance(cluster, EksCluster) else 0
    for pool_name, pool in cluster.pools.items():
        least, most = pool.nodes.min, pool.nodes.max
        reserved = pool.reservation.count if pool.reservation is not None else None
        yield Paid(
            name=pool_name,
            line=nodes(name, f"pool {pool_name}", pool.instance_types, region, pool.capacity, least, most),
            region=region,
            disk=cluster.node_disk(pool),
            windows=pool.schedules.kept if pool.schedules is not None else (),
            warm=pool.warm.paid if pool.warm is not None else None,
            groups=len(cluster.groups_of(pool)),
            prepaid=reserved,
            # A full reservation has no room for more: its groups have the strategy MINIMAL.
            spare=assumption("update-nodes") if reserved is None else 0,
            pulls=gateways > 0,
        )
    if isinstance(cluster, EksCluster):
        system = cluster.system
        yield Paid(
            name="system pool",
            line=nodes(name, "system pool", system.instance_types, region, "on-demand", system.nodes.min, system.nodes.max),
            region=region,
            disk=cluster.disk_parts(system.disk // 1024),
            spare=assumption("update-nodes") * len(cluster.fixed_zones),
        )
        item, support = billed(cluster.kubernetes_version, day)
        yield units(name, "control plane", support, item, region, 1, 1)
        if cluster.log_types:
            unit, (idle, busy) = "CloudWatch, GB", map(assumption, ("log-gb", "log-gb-worst"))
            yield units(name, "control-plane logs", unit, "log-gb", region, idle, busy)
        if gateways:
            yield units(name, "NAT gateways", "without traffic", "nat-gateway", region, gateways, gateways)
            yield units(name, "addresses", "public IPv4 of the NAT gateways", "public-ipv4", region, gateways, gateways)
        if (registry := cluster.registry) is not None:
            yield units(name, "registry key", "KMS, with two rotations at worst", "kms-key", region, 1, 3)
            if registry.runner_image is not None and (size := registry.runner_image.size_gb) is not None:
                yield units(name, "registry images", "of runners, GB", "ecr-gb", region, size, size * KEPT_IMAGES)
    yield from cache_lines(name, cluster)
    for ami_name, ami in cluster.amis.items():
        if ami.built is not None:
            copies, gib = 1 + len(ami.regions), ami.disk / 1024
            unit = "snapshots of its images, GiB at most"
            yield units(name, f"AMI {ami_name}", unit, SNAPSHOT, region, copies * gib, copies * gib * (ami.keep + 1))
    if cluster.build_caches is not None:
        for bucket, cache in cluster.build_caches.buckets.items():
            unit = f"S3, {memory_text(cache.size)} at worst, without requests"
            yield units(name, f"build cache {bucket}", unit, "s3-gb", region, 0, cache.size / 1024)
