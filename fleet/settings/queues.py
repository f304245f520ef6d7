"""Queues for the GPU Jobs of teams: quotas per pool, borrowing, lending and preemption.

Some rules of Kueue are not in the schemas of its CRDs. They are here (kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2,
pkg/webhooks).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from fleet.settings.model import DnsLabel, Model
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.pool import Pool, require_pool, require_same_gpus
from fleet.settings.refusals import problem, refusal, refuse, refuse_if, require_once

NEVER = "Never"

Amount = Annotated[int, Field(ge=0)]
"""Units of the pool's resource: GPUs, or shares of them."""


class Flavor(Model):
    """Several pools that a team's quota counts as one, so that a Job runs in the first of them that has a node for it."""

    pools: tuple[str, ...]
    """Two or more pools, the first choice first (docs/fallback.md). Example: `[t4-spot, t4-ondemand]`"""

    @refusal
    def _each_pool_once(self) -> None:
        """Refuse a pool given twice, and fewer than two pools."""
        require_once("repeated_pool", self.pools, at=("pools",))
        refuse("pools", flavor_alone=len(self.pools) < 2)


class Quota(Model):
    """A team's quota of one pool or of one flavor, in units of the resource of its nodes."""

    pool: str | None = None
    """The pool of the quota. A quota names either a pool or a flavor."""
    flavor: str | None = None
    """The flavor of the quota. A quota names either a pool or a flavor. Example: `t4`"""
    nominal: Amount
    """The team's own quota. It is available again once other teams have returned what they borrowed. Unit: GPUs or shares."""
    borrow: Amount | None = None
    """The most that the team borrows from others. It needs a cohort. Default: all unused units. Unit: GPUs or shares. Example:
    `2`"""
    lend: Amount | None = None
    """The most that other teams may borrow, at most `nominal`. It needs a cohort. Default: all unused units. Unit: GPUs or
    shares. Example: `1`"""

    @property
    def name(self) -> str:
        """The name of its ResourceFlavor in Kueue: that of the pool or the flavor."""
        return self.pool or self.flavor or ""

    @refusal
    def _rules(self) -> None:
        """Refuse a quota of no pool and no flavor, or of both, and to lend more than the nominal quota, as Kueue does."""
        refuse("pool", queue_quota=(self.pool is None) is (self.flavor is None))
        refuse_if("queue_lend", self.lend is not None and self.lend > self.nominal, at=("lend",), nominal=self.nominal)


class Preemption(Model):
    """Which Jobs Kueue may preempt for a waiting Job, with Kueue's values. Default: none."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Which Jobs of the same team Kueue may preempt. Source: Kueue, kueue.x-k8s.io/v1beta2, ClusterQueue. Example:
    `LowerPriority`"""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Which Jobs Kueue may preempt of teams that have borrowed this team's quota. Source: Kueue, kueue.x-k8s.io/v1beta2,
    ClusterQueue. Example: `Any`"""
    borrow_within_cohort: Literal["Never", "LowerPriority"] = "Never"
    """Which Jobs of teams that borrow Kueue may preempt for a Job that needs to borrow as well. Source: Kueue,
    kueue.x-k8s.io/v1beta2, ClusterQueue. Example: `LowerPriority`"""


class Team(Model):
    """A team: one ClusterQueue of its name, and a LocalQueue of that name in each of its namespaces."""

    namespaces: Annotated[tuple[TeamNamespace, ...], Field(min_length=1)]
    """Namespaces of the team. Each gets a LocalQueue with the team's name."""
    # A resource group of a ClusterQueue has 64 flavors at most.
    quotas: Annotated[tuple[Quota, ...], Field(min_length=1, max_length=64)]
    """Kueue tries the pools and flavors in this order. A team cannot use a pool that is not listed."""
    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """`BestEffortFIFO` lets a Job that fits overtake an older one that does not. `StrictFIFO` keeps the order. Example:
    `StrictFIFO`"""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """The team's share of borrowed units, relative to other teams; 0 comes last. Only with `fairSharing`. Unit: relative
    number."""
    preemption: Preemption = Preemption()
    """Which Jobs may be stopped for a waiting Job of this team. Default: none."""

    @refusal
    def _one_quota_a_pool(self) -> None:
        """Refuse a pool or flavor given twice: a ClusterQueue has each flavor once."""
        names = [quota.name for quota in self.quotas]
        for index, quota in enumerate(self.quotas):
            if quota.name in names[:index]:
                kind = "pool" if quota.pool is not None else "flavor"
                raise problem("queue_pool_twice", at=("quotas", str(index), kind), kind=kind)


class Queues(Model):
    """The queues of a cluster. Teams of a cohort borrow from each other. Without a cohort each team has only its own quota."""

    cohort: DnsLabel | None = None
    """Name of the cohort in which teams borrow unused quota from each other. Default: each team has only its own quota."""
    fair_sharing: bool = False
    """Whether the team that borrows least for its weight borrows next. Otherwise the oldest Job borrows next."""
    flavors: dict[DnsLabel, Flavor] = Field(default_factory=dict)
    """Several pools that quotas count as one, by a name of your choice."""
    teams: Annotated[dict[DnsLabel, Team], Field(min_length=1)]
    """The teams of the cluster, by name. Each gets a queue of its name."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of all teams."""
        return tuple(namespace for team in self.teams.values() for namespace in team.namespaces)

    @property
    def pools(self) -> frozenset[str]:
        """Pools that have a quota of any team."""
        return frozenset(pool for _, _, quota in self.quotas() for pool in self.pools_of(quota.name))

    def flavor_names(self, pools: Iterable[str]) -> tuple[str, ...]:
        """The names of the ResourceFlavors that have a quota, in the order of the cluster's `pools`."""
        return tuple(dict.fromkeys(self.flavor_of(pool) or pool for pool in pools if pool in self.pools))

    def pools_of(self, flavor: str) -> tuple[str, ...]:
        """The pools of a ResourceFlavor, the first choice first: a flavor has several, and each other pool is its own."""
        return self.flavors[flavor].pools if flavor in self.flavors else (flavor,)

    def flavor_of(self, pool: str) -> str:
        """The flavor of several pools that has this one; empty if none has it."""
        return next((name for name, flavor in self.flavors.items() if pool in flavor.pools), "")

    def nominal(self, flavor: str) -> int:
        """The sum of all teams' quotas of a ResourceFlavor. Borrowing does not exceed it."""
        return sum(quota.nominal for _, _, quota in self.quotas() if quota.name == flavor)

    def quotas(self) -> Iterator[tuple[str, int, Quota]]:
        """(team, index, quota) of every team's quotas."""
        for name, team in self.teams.items():
            yield from ((name, index, quota) for index, quota in enumerate(team.quotas))

    @refusal
    def _cohort_rules(self) -> None:
        """Refuse borrowing without a cohort, and preemption settings that Kueue rejects or ignores."""
        for name, index, quota in self.quotas():
            for key, value in (("borrow", quota.borrow), ("lend", quota.lend)):
                if value is not None and self.cohort is None:
                    raise problem("queue_cohort", at=("teams", name, "quotas", str(index), key), key=key)
        refuse("fairSharing", queue_fair_sharing=self.fair_sharing and self.cohort is None)
        for name, team in self.teams.items():
            at = ("teams", name)
            refuse(*at, "weight", queue_weight="weight" in team.model_fields_set and not self.fair_sharing)
            refuse(*at, "quotas", queue_empty=self.cohort is None and not any(quota.nominal for quota in team.quotas))
            self._preemption_rules((*at, "preemption"), team.preemption)

    def _preemption_rules(self, at: tuple[str, ...], preemption: Preemption) -> None:
        reclaim, borrow = preemption.reclaim_within_cohort, preemption.borrow_within_cohort
        refuse(*at, "reclaimWithinCohort", queue_reclaim=reclaim != NEVER and self.cohort is None)
        refuse(*at, "borrowWithinCohort", queue_borrow_preemption__fair=borrow != NEVER and self.fair_sharing)
        refuse(*at, "borrowWithinCohort", queue_borrow_preemption=borrow != NEVER and reclaim == NEVER)

    @refusal
    def _one_team_a_namespace(self) -> None:
        """Refuse a namespace that two teams have: its Jobs would all wait in the queue of one team."""
        holders: dict[str, str] = {}
        for name, team in self.teams.items():
            for index, namespace in enumerate(team.namespaces):
                if (holder := holders.get(namespace)) is not None:
                    raise problem("queue_namespace_twice", at=("teams", name, "namespaces", str(index)), holder=holder)
                holders[namespace] = name


def require_queues(queues: Queues, pools: Mapping[str, Pool]) -> None:
    """Refuse quotas of unknown pools and flavors, and quotas whose sum is larger than their pools. Raises a settings problem.

    A pool has its maximum number of nodes, each of the type with the fewest units.
    """
    _require_flavors(queues, pools)
    handed: Counter[str] = Counter()
    for team, index, quota in queues.quotas():
        at = ("queues", "teams", team, "quotas", str(index))
        if quota.pool is not None:
            require_pool("queue_pool", quota.pool, pools, at=(*at, "pool"))
            if flavor := queues.flavor_of(quota.pool):
                raise problem("queue_pool_in_flavor", at=(*at, "pool"), flavor=flavor)
        elif quota.flavor not in queues.flavors:
            fix = f"name one of: {', '.join(queues.flavors)}" if queues.flavors else "there is none; add one to queues.flavors"
            raise problem("queue_flavor", at=(*at, "flavor"), fix=fix)
        members = queues.pools_of(quota.name)
        handed[quota.name] += quota.nominal
        if handed[quota.name] > (most := sum(units(pools[pool]) for pool in members)):
            kind, whose = ("flavor", "its pools") if quota.pool is None else ("pool", "the pool")
            title, size = f"{kind} {quota.name}", f"{most} {pools[members[0]].resource}"
            raise problem("queue_nominal", at=(*at, "nominal"), handed=handed[quota.name], title=title, size=size, whose=whose)


def _require_flavors(queues: Queues, pools: Mapping[str, Pool]) -> None:
    """Refuse flavors of unknown or different pools, pools of two flavors, and flavors that Kueue or the teams cannot use."""
    used = {quota.flavor for _, _, quota in queues.quotas()}
    owners: dict[str, str] = {}
    for name, flavor in queues.flavors.items():
        at = ("queues", "flavors", name)
        refuse_if("flavor_name", name in pools, at=at, value=name)
        refuse(*at, flavor_unused=name not in used)
        for index, pool in enumerate(flavor.pools):
            here = (*at, "pools", str(index))
            require_pool("flavor_pool", pool, pools, at=here)
            if (owner := owners.setdefault(pool, name)) != name:
                raise problem("flavor_pool_twice", at=here, owner=owner)
            require_same_gpus("flavor_mixed", pool, flavor.pools[0], pools, at=here)
            refuse(*here, flavor_labels=not pools[pool].LABELED)


def units(pool: Pool) -> int:
    """Units of a pool with its maximum number of nodes, each of the type with the fewest units."""
    return pool.nodes.max * min(map(pool.units, pool.machines))
