"""spot-with-fallback: if spot runs out, another pool with the same GPU can run the same jobs.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools and ARC's runner sets, by cluster. A spot GPU pool needs a
*fallback*: another pool with the same GPU model that does not buy spot. Each runner set whose jobs may run in the spot pool must
be able to run them in such a pool, by the node selector or required node affinity of their pods: those of the runners, or those
of jobs in containers. If no runner set uses the spot pool, any pool of the cluster with that GPU will do.

A fallback is small, and keeps no node while it is not needed. A pool of reserved capacity may be a fallback at any size, because
it costs the same when it is not used. A pool that may buy both (by a Karpenter requirement, or an OKE placement without
preemption) is its own fallback. On-demand base capacity of a spot group does not count as a fallback.

A spot pool of `spotOnly` needs no fallback: a person says why its jobs may wait for hours. A pool that leaves (taint
`gpu-ci/leaving`) gets no new job. It needs no fallback, and it does not count as one.

A pool with the role `fallback` must come after a spot pool: each runner set that may run there can also run in a spot pool with
that GPU, and there is such a set. In a cluster without a GPU runner set the rule does not judge the role, because the sets may be
in another stack.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleet.facts.groups import grouped
from fleet.facts.hardware import ON_DEMAND, SPOT, machines
from fleet.facts.record import Record
from fleet.facts.scheduling import FALLBACK, GPU_RESOURCE, POOL_LABEL, ROLE_LABEL

from .clusters import Clustered, cluster_of, named
from .kinds import CONFIG_MAP, KARPENTER_NODE_POOL, OKE_CLUSTER, POOLS
from .node_groups import pooled
from .node_labels import labels_of, wanted
from .pods import takes_gpus
from .pools import FAMILY_LABEL, LEAST, bought, choices, gpu_sign, least, leaves, most, offers
from .read import Data, Later, bound, entries, items, line, shown, text, walk, whole
from .record import Resource
from .rule import Stack, StackRule, Violations, facts, said, setting, unseen
from .runner_sets import RUNNER_SETS, runner_sets


class _Pool(Record, eq=False):
    """A GPU pool: the capacity that it may buy, and its GPU models in lower case, empty if no property names them.

    `labels` are those of its nodes.
    """

    at: Clustered
    buys: frozenset[str]
    models: frozenset[str]
    labels: Mapping[str, str]

    @property
    def role(self) -> str:
        """Its role label, "" without one."""
        return self.labels.get(ROLE_LABEL, "")

    @property
    def name(self) -> str:
        """Its logical name, for messages."""
        return line(self.at.resource.name)

    @property
    def key(self) -> str:
        """Its name in the settings if its nodes have that label, else its logical name."""
        return self.labels.get(POOL_LABEL) or self.at.resource.name

    def suits(self, spot: "_Pool") -> bool:
        """Whether it is a pool of the same cluster and GPU that may buy something other than spot."""
        return bool(self.buys - {SPOT}) and self.at.near(spot.at) and self.shares(spot)

    def shares(self, other: "_Pool") -> bool:
        """Whether both may have the same GPU model."""
        return not self.models or not other.models or bool(self.models & other.models)


class _Set(Record):
    """A runner set whose runners take GPUs, and the pools in which they may run."""

    at: Clustered
    pools: tuple[_Pool, ...]


_Grade = tuple[list[tuple[str, str]], Later]
"""The reasons why a pool cannot be a fallback of any spot pool, and the unknown values among them."""


def _check(stack: Stack, later: Later) -> Violations:
    limit = bound(stack.config, "maxFallback")
    unlabeled, unread_sets, outside = Later(), Later(), Later()
    readings = [_read(resource, later, unlabeled) for resource in pooled(stack.of(POOLS))]
    pools = [pool for pool in readings if pool is not None]
    agreed = {text(walk(item, "pool")) for _, item in items(stack.config.get("spotOnly"), Later())}
    spots = [pool for pool in pools if pool.buys == {SPOT} and pool.key not in agreed]
    behind = [pool for pool in pools if pool.role == FALLBACK]
    sets = list(_sets(stack, pools, unread_sets)) if spots or behind or unlabeled else []
    if (sets or agreed) and unlabeled:
        # A set may run in a pool with an unknown label, and a person may have accepted that the jobs of that pool wait.
        unlabeled.settle()
    graded = {pool.at.resource.urn: _graded(pool, limit) for pool in pools if pool.buys - {SPOT}}
    reported: dict[tuple[str, str], None] = {}
    for spot in spots:
        users: list[_Set | None] = [runner_set for runner_set in sets if spot in runner_set.pools]
        for user in users or [None]:
            fallbacks = [pool for pool in (user.pools if user is not None else pools) if pool.suits(spot)]
            grades = [graded[pool.at.resource.urn] for pool in fallbacks]
            if any(not (faults or unread) for faults, unread in grades):
                continue
            for _, unread in grades:
                later.join(unread)
            if any(unread for _, unread in grades):
                continue
            if fallbacks:
                subject, urn = f"as the fallback of spot pool {spot.name}", fallbacks[0].at.resource.urn
                reported |= {(f"{value}: {subject} {rule}", urn): None for value, rule in grades[0][0]}
            elif spot.at.cluster in stack.existing:
                outside.note(unseen(spot.at.cluster, f"whether another pool of it has the GPU of {spot.name}"))
            elif not later:
                # A pool with an unknown value may be the fallback.
                yield _missing(spot, user), (spot if user is None else user).at.resource.urn
    if not later:
        yield from sorted(reported)
        yield from _not_behind(behind, sets, certain=not unread_sets)
    later.join(unread_sets)
    outside.settle()


def _not_behind(pools: Iterable[_Pool], sets: Sequence[_Set], *, certain: bool) -> Violations:
    """The pools with the role fallback that no set names after a spot pool, or that a set names without one.

    Without `certain` some sets are not known.
    """
    for pool in pools:
        users = [runner_set for runner_set in sets if pool in runner_set.pools]
        behind = [user for user in users if any(pool.suits(spot) and spot.buys == {SPOT} for spot in user.pools)]
        alone = [line(user.at.resource.name) for user in users if user not in behind]
        if alone or (certain and not users and any(runner_set.at.near(pool.at) for runner_set in sets)):
            who = f"runner set {alone[0]} can run in it and in no spot pool" if alone else "no runner set can run in it"
            yield said("idle_fallback", label=ROLE_LABEL, fallback=FALLBACK, who=who), pool.at.resource.urn


def _sets(stack: Stack, pools: Sequence[_Pool], later: Later) -> Iterator[_Set]:
    """The runner sets whose runners take GPUs. `later` collects unknown values that may hide one."""
    declared = frozenset(key for pool in pools for key in pool.labels)
    by_name = grouped((pool.labels.get(POOL_LABEL, ""), pool) for pool in pools)
    for runner_set in runner_sets(stack.of(RUNNER_SETS, CONFIG_MAP), later):
        unread = Later()
        with unread:
            if (pod := runner_set.job_pod(unread)) is None or not takes_gpus(pod, unread):
                later.join(unread)
                continue
            at, conditions = Clustered(runner_set.resource, cluster_of(runner_set.resource)), wanted(pod.spec)
            candidates = [pool for name in conditions.pools for pool in by_name.get(name, ())] if conditions.pools else pools
            yield _Set(at, tuple(pool for pool in candidates if pool.at.near(at) and conditions.admits(pool.labels, declared)))
        later.join(unread)


def _read(resource: Resource, later: Later, unlabeled: Later) -> _Pool | None:
    """The GPU pool, unless it leaves; None for others, and if an unknown value decides. `unlabeled` collects unknown labels."""
    unread, unsigned = Later(), Later()
    token, props = resource.type, resource.props
    if not gpu_sign(token, props, unsigned):
        later.join(unsigned)
        return None
    labels: dict[str, str] = unlabeled.get(lambda: labels_of(token, props), {})
    with unread:
        if leaves(token, props):
            return None
        at = Clustered(resource, cluster_of(resource))
        pool = _Pool(at, bought(token, props), frozenset(_models(token, props, unread)), labels)
        if not unread:
            return pool
    later.join(unread)
    return None


def _models(token: str, props: Data, later: Later) -> Iterator[str]:
    for choice in choices(token, props, later):
        if choice.machine is not None and choice.machine.gpu is not None:
            yield choice.machine.gpu.name.lower()
    if token != KARPENTER_NODE_POOL:
        return
    for _, key, item in offers(props, ("karpenter.k8s.aws/instance-gpu-name", FAMILY_LABEL), later):
        for _, entry in entries(item, "values", later):
            name = text(entry)
            if key == FAMILY_LABEL:
                family = (machine.gpu for machine in machines("aws") if machine.name.startswith(f"{name}."))
                yield from (gpu.name.lower() for gpu in family if gpu)
            else:
                yield name.lower()


def _graded(pool: _Pool, limit: int) -> _Grade:
    unread = Later()
    return list(_faults(pool, limit, unread)), unread


def _faults(fallback: _Pool, limit: int, later: Later) -> Iterator[tuple[str, str]]:
    """The reasons why a pool is not a good fallback: the value, and the rule with the fix."""
    if fallback.buys != {ON_DEMAND}:
        # Reserved capacity costs nothing more, and a pool that may also buy spot is not only a fallback.
        return
    resource = fallback.at.resource
    with later:
        if least(resource.type, resource.props):
            path = LEAST[resource.type]
            yield f"{'.'.join(path)} is {shown(walk(resource.props, *path))}", "it keeps no node until one is needed; write 0"
    with later:
        path, value = most(resource.type, resource.props, resource.opts)
        if value is None and resource.type == KARPENTER_NODE_POOL:
            # Every node has at least one GPU, so the GPU limit also limits the nodes.
            path = ("spec", "limits", GPU_RESOURCE)
            value = walk(resource.props, *path)
        if (nodes := whole(value)) is None or nodes > limit:
            yield f"{'.'.join(path)} is {shown(value)}", said("large_fallback", limit=limit, s="" if limit == 1 else "s")


def _missing(spot: _Pool, user: _Set | None) -> str:
    models = ", ".join(line(model.upper()) for model in sorted(spot.models)[:5]) or "GPUs of its launch template"
    where = f"spot pool {spot.name} ({models})"
    alone = f", or accept that they wait: write pool {line(spot.key)} and why in {setting('spotOnly')}"
    if user is None:
        return said("no_fallback", where=where, cluster=named(spot.at.cluster), alone=alone)
    return said("one_pool", where=where, alone=alone)


RULE = StackRule(**facts(__name__), types=POOLS | {OKE_CLUSTER, CONFIG_MAP} | RUNNER_SETS, check=_check)
