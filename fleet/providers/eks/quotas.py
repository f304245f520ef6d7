"""EC2 vCPU quotas that the GPU pools of EKS clusters need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fleet.providers.eks.cluster import EksPools
from fleet.providers.quotas import Need, needs


def eks_needs(declaring: EksPools, clusters: Iterable[EksPools]) -> tuple[Need, ...]:
    """The needs of all GPU pools in the cluster's region, because quotas are per region. A reservation counts in full."""
    return tuple(
        need
        for cluster in clusters
        if cluster.region == declaring.region
        for pool in cluster.pools.values()
        for need in needs(pool.machines, pool.capacity, pool.paid_nodes[1], cluster.region)
    )


def eks_quotas(declaring: EksPools, clusters: Iterable[EksPools]) -> dict[str, int]:
    """vCPUs by quota code: the need of the fleet, or the quota in `accountQuotas` if that is larger."""
    taken: Counter[str] = Counter()
    for need in eks_needs(declaring, clusters):
        if need.code is not None:
            taken[need.code] += need.units
    return {code: max(vcpus, declaring.account_quotas.get(code, 0)) for code, vcpus in sorted(taken.items())}
