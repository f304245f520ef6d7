"""The hourly cost of an EKS cluster, and the EC2 vCPU quotas that the pools of EKS clusters need.

AWS has quotas per account and region. Offline nothing shows what an account has, so `accountQuotas` gives it.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date

from fleet.facts.bill import Paid, assumption
from fleet.facts.hardware import CAPACITY_BLOCK, Machine
from fleet.facts.pricing import Line, nodes, units
from fleet.facts.quantities import memory_text
from fleet.facts.remark import said, todo
from fleet.providers.cache_bill import cache_lines
from fleet.providers.eks.capacity import billed
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.ecr import KEPT_IMAGES
from fleet.providers.provider import Need, needs
from fleet.settings.pool import Capacity

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
        system, spare = cluster.system, assumption("update-nodes") * len(cluster.fixed_zones)
        line = nodes(name, "system pool", system.instance_types, region, "on-demand", system.nodes.min, system.nodes.max)
        yield Paid(name="system pool", line=line, region=region, disk=cluster.disk_parts(system.disk // 1024), spare=spare)
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


_User = tuple[tuple[Machine, ...], Capacity, int]
"""The types of a pool, how they are bought, and how many machines it has at most."""


def eks_needs(declaring: EksPools, clusters: Collection[EksPools]) -> tuple[Need, ...]:
    """The needs of all pools in the cluster's region, because quotas are per region. A reservation counts in full.

    With a pool without GPUs, system pools count too, because both may use one quota. A capacity block needs none: EC2 limits
    blocks by their instances, when you buy them (data/README.md, quota sources).
    """
    here = [cluster for cluster in clusters if cluster.region == declaring.region]
    bought = [pool for cluster in here for pool in cluster.pools.values() if pool.capacity != CAPACITY_BLOCK]
    users: list[_User] = [(pool.machines, pool.capacity, pool.paid_nodes[1]) for pool in bought]
    if not all(pool.has_gpus for pool in bought):
        systems = (cluster.system for cluster in here if isinstance(cluster, EksCluster))
        users += [(system.machines, "on-demand", system.nodes.max) for system in systems]
    return tuple(need for user in users for need in needs(*user, declaring.region))


def eks_quotas(declaring: EksPools, clusters: Collection[EksPools]) -> dict[str, int]:
    """vCPUs to request by quota code: the need of the fleet in the region, where the account is known to have less.

    A quota that `accountQuotas` does not give is not requested: AWS refuses a number below what the account has.
    """
    account = _account(declaring.region, clusters)
    return {code: vcpus for code, vcpus in vcpus_needed(declaring, clusters).items() if vcpus > account.get(code, vcpus)}


def quota_remarks(clusters: Collection[EksPools]) -> Iterator[str]:
    """Quotas that the account may lack, with the command that shows or requests them. A declared request needs none."""
    for region, cluster in {cluster.region: cluster for cluster in clusters}.items():
        account, needed = _account(region, clusters), vcpus_needed(cluster, clusters)
        requests = any(other_cluster.declare_quotas for other_cluster in clusters if other_cluster.region == region)
        if missing := [code for code in needed if code not in account]:
            full = " and ".join(f"{needed[code]} vCPUs of quota {code}" for code in missing)
            shown = _of(region, missing[0] if len(missing) == 1 else "<code>")
            yield todo(said("unknown_quotas", region=region, full=full, shown=shown))
        for code, vcpus in needed.items():
            if code in account and vcpus > account[code] and not requests:
                yield todo(
                    f"AWS {region}: full pools need {vcpus} vCPUs of quota {code}, and the account has {account[code]}; "
                    f"{increase(region, code, vcpus)}"
                )


def increase(region: str, code: str, vcpus: int) -> str:
    """The command that requests this many vCPUs of a quota."""
    return f"aws service-quotas request-service-quota-increase {_of(region, code)} --desired-value {vcpus}"


def _of(region: str, code: str) -> str:
    return f"--region {region} --service-code ec2 --quota-code {code}"


def vcpus_needed(declaring: EksPools, clusters: Collection[EksPools]) -> dict[str, int]:
    """vCPUs that full pools in the region of a cluster take, by quota code."""
    vcpus: Counter[str] = Counter()
    for need in eks_needs(declaring, clusters):
        if need.code is not None:
            vcpus[need.code] += need.units
    return dict(sorted(vcpus.items()))


def _account(region: str, clusters: Collection[EksPools]) -> dict[str, int]:
    """vCPUs that the account has in a region, by quota code. If clusters give different numbers, the largest counts."""
    quotas = (cluster.account_quotas for cluster in clusters if cluster.region == region)
    return dict(sorted(row for by_code in quotas for row in by_code.items()))
