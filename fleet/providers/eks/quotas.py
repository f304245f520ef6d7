"""EC2 vCPU quotas that the GPU pools of EKS clusters need.

AWS has them per account and region. Offline nothing shows what an account has, so `accountQuotas` gives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from fleet.facts.hardware import CAPACITY_BLOCK
from fleet.facts.remark import todo
from fleet.providers.eks.cluster import EksPools
from fleet.providers.provider import Need, needs


def eks_needs(declaring: EksPools, clusters: Collection[EksPools]) -> tuple[Need, ...]:
    """The needs of all GPU pools in the cluster's region, because quotas are per region. A reservation counts in full.

    A capacity block needs none: EC2 limits blocks by their instances, when you buy them (data/README.md, quota sources).
    """
    return tuple(
        need
        for cluster in clusters
        if cluster.region == declaring.region
        for pool in cluster.pools.values()
        if pool.capacity != CAPACITY_BLOCK
        for need in needs(pool.machines, pool.capacity, pool.paid_nodes[1], cluster.region)
    )


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
            show = f"aws service-quotas get-service-quota {_of(region, missing[0] if len(missing) == 1 else '<code>')}"
            advice = "write what the account has in accountQuotas"
            yield todo(f"AWS {region}: full pools need {full}; {advice}: {show} --query Quota.Value")
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
