"""system-pool-exists: every cluster with node pools has an untainted one that keeps nodes.

Judged: EKS managed node groups, OKE node pools and Karpenter NodePools, by cluster. A pool is untainted if none of its taints
keeps pods off. On OKE its shape must also have no GPU, and no placement may be preemptible, because OKE taints both by itself.
Karpenter's nodes come and go, so a NodePool keeps no nodes; Karpenter's own controller needs other nodes.

A cluster that exists already has its system pool elsewhere, so for it the rule is undeterminable.

The rule does not read Fargate profiles, virtual nodes and EKS Auto Mode. A cluster that runs its system pods there needs an
exception. The rule does not judge Talos clusters: their system nodes are not resources, and the settings allow no cluster without
a control plane.
"""

from collections.abc import Iterator

from fleet.facts.hardware import SPOT
from fleet.facts.record import Record

from .clusters import Clustered, cluster_of, named, names
from .kinds import KARPENTER_NODE_POOL, OKE_CLUSTER, OKE_NODE_POOL, POOLS
from .pools import LEAST, bought, least, machine_sign, taints
from .read import Later, bound, text, walk
from .rule import NOTHING, Resource, Stack, StackRule, Violations, facts, said


class _Pool(Record):
    """A pool, whether it is untainted, and how many nodes it keeps; None for either if an unknown value decides."""

    at: Clustered
    untainted: bool | None
    keeps: int | None


def _check(stack: Stack, later: Later) -> Violations:
    minimum = bound(stack.config, "minNodes")
    pools = [_read(resource, later) for resource in stack.of(POOLS)]
    placed = [pool for pool in pools if pool is not None]
    for here in _clusters(placed):
        near = [pool for pool in placed if pool.at.near(here)]
        if here.cluster in stack.existing or sum(pool.keeps or 0 for pool in near if pool.untainted) >= minimum:
            continue
        unclear = len(placed) < len(pools) or any(pool.untainted is None or pool.keeps is None for pool in near)
        if not unclear:
            yield _fault(here.cluster, near, minimum), None


def _clusters(pools: list[_Pool]) -> Iterator[Clustered]:
    """The first pool of each cluster. Two clouds may have clusters of the same name."""
    first: dict[tuple[str, str], Clustered] = {}
    for pool in pools:
        first.setdefault((pool.at.cluster, pool.at.cloud), pool.at)
    clouds = {cluster for cluster, cloud in first if cloud}
    return (at for (cluster, cloud), at in first.items() if cloud or cluster not in clouds)


def _read(resource: Resource, later: Later) -> _Pool | None:
    """What is known of a pool; None if its cluster is unknown."""
    unread = Later()
    at: Clustered | None = unread.get(lambda: Clustered(resource, cluster_of(resource)), None)
    free: bool | None = unread.get(lambda: _untainted(resource), None)
    keeps: int | None = 0
    # The nodes of a tainted pool do not count.
    if free is not False and resource.type != KARPENTER_NODE_POOL:
        keeps = unread.get(lambda: least(resource.type, resource.props), None)
    later.join(unread)
    return None if at is None else _Pool(at, free, keeps)


def _untainted(resource: Resource) -> bool:
    later = Later()
    if resource.type == OKE_NODE_POOL:
        with later:
            if machine_sign(text(walk(resource.props, "nodeShape"))) or SPOT in bought(OKE_NODE_POOL, resource.props):
                return False
    for _, taint in taints(resource.type, resource.props, later):
        with later:
            if text(walk(taint, "effect")) not in ("PREFER_NO_SCHEDULE", "PreferNoSchedule"):
                return False
    later.settle()
    return True


def _fault(cluster: str, pools: list[_Pool], minimum: int) -> str:
    free = [pool for pool in pools if pool.untainted]
    which = names(pool.at.resource for pool in free or pools)
    if not free:
        return said("no_system_pool", cluster=named(cluster), which=which)
    fields = ", ".join(sorted({".".join(LEAST[pool.at.resource.type]) for pool in free}))
    kept = sum(pool.keeps or 0 for pool in free)
    return said("few_system_nodes", cluster=named(cluster), which=which, kept=kept, minimum=minimum, fields=fields)


RULE = StackRule(**facts(__name__), types=POOLS | {OKE_CLUSTER}, check=_check, in_manifests=NOTHING)
