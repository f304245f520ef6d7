"""Queues for the GPU Jobs of teams: quotas per pool, borrowing, lending and preemption.

Some rules of Kueue are not in the schemas of its CRDs. They are here (kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2,
pkg/webhooks).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fleet.settings.model import DnsLabel, Model, problem
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.pool import Pool, require_pool

NEVER = "Never"
_FLAVORS = 64
"""The most flavors of one resource group in a ClusterQueue."""

Amount = Annotated[int, Field(ge=0)]
"""Units of the pool's resource: GPUs, or shares of them."""


class Quota(Model):
    """A team's quota of one pool, in units of the pool's resource."""

    pool: str
    nominal: Amount
    """The team's own quota. It is available again once other teams have returned what they borrowed."""
    borrow: Amount | None = None
    """Maximum units that the team borrows from others. Default: all unused units."""
    lend: Amount | None = None
    """Maximum units that other teams may borrow. Default: all unused units."""

    @model_validator(mode="after")
    def _lends_its_own(self) -> Self:
        """Refuse to lend more than the nominal quota, as Kueue's webhook does."""
        if self.lend is not None and self.lend > self.nominal:
            raise problem(
                "queue_lend",
                f"a team can lend at most its own quota, which is {self.nominal} here; lower lend or raise nominal",
                at=("lend",),
            )
        return self


class Preemption(Model):
    """Which Jobs Kueue may preempt for a waiting Job, with Kueue's values. Default: none."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Preempt Jobs of the same team."""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Preempt Jobs of a team that has borrowed this team's quota."""
    borrow_within_cohort: Literal["Never", "LowerPriority"] = "Never"
    """Preempt Jobs of a team that borrows, for a Job that needs to borrow as well."""


class Team(Model):
    """A team: one ClusterQueue of its name, and a LocalQueue of that name in each of its namespaces."""

    namespaces: Annotated[tuple[TeamNamespace, ...], Field(min_length=1)]
    quotas: Annotated[tuple[Quota, ...], Field(min_length=1, max_length=_FLAVORS)]
    """Kueue tries the pools in this order. A team cannot use a pool that is not listed."""
    strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """BestEffortFIFO lets a Job that fits overtake an older one that does not."""
    weight: Annotated[int, Field(ge=0)] = 1
    """The team's share of borrowed units, relative to other teams, with fair sharing. 0 comes last."""
    preemption: Preemption = Preemption()

    @model_validator(mode="after")
    def _one_quota_a_pool(self) -> Self:
        """Refuse a pool given twice: a ClusterQueue has each flavor once."""
        pools = [quota.pool for quota in self.quotas]
        for index, pool in enumerate(pools):
            if pool in pools[:index]:
                raise problem(
                    "queue_pool_twice", "the team has a quota of this pool already; remove one", at=("quotas", str(index), "pool")
                )
        return self


class Queues(Model):
    """The queues of a cluster. Teams of a cohort borrow from each other. Without a cohort each team has only its own quota."""

    cohort: DnsLabel | None = None
    fair_sharing: bool = False
    """Whether the team that borrows least for its weight borrows next. Otherwise the oldest Job borrows next."""
    teams: Annotated[dict[DnsLabel, Team], Field(min_length=1)]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of all teams."""
        return tuple(namespace for team in self.teams.values() for namespace in team.namespaces)

    @property
    def pools(self) -> frozenset[str]:
        """Pools that have a quota of any team."""
        return frozenset(quota.pool for _, _, quota in self.quotas())

    def nominal(self, pool: str) -> int:
        """The sum of all teams' quotas of a pool. Borrowing does not exceed it."""
        return sum(quota.nominal for _, _, quota in self.quotas() if quota.pool == pool)

    def quotas(self) -> Iterator[tuple[str, int, Quota]]:
        """(team, index, quota) of every team's quotas."""
        for name, team in self.teams.items():
            for index, quota in enumerate(team.quotas):
                yield name, index, quota

    @model_validator(mode="after")
    def _cohort_rules(self) -> Self:
        """Refuse borrowing without a cohort, and preemption settings that Kueue rejects or ignores."""
        for name, index, quota in self.quotas():
            for key, value in (("borrow", quota.borrow), ("lend", quota.lend)):
                if value is not None and self.cohort is None:
                    raise problem(
                        "queue_cohort",
                        f"teams borrow and lend within a cohort; set cohort, or remove {key}",
                        at=("teams", name, "quotas", str(index), key),
                    )
        if self.fair_sharing and self.cohort is None:
            raise problem(
                "queue_fair_sharing",
                "fair sharing applies to what the teams of a cohort borrow; set cohort, or remove fairSharing",
                at=("fairSharing",),
            )
        for name, team in self.teams.items():
            at = ("teams", name)
            if "weight" in team.model_fields_set and not self.fair_sharing:
                raise problem(
                    "queue_weight",
                    "weight has an effect only with fair sharing; set fairSharing: true, or remove weight",
                    at=(*at, "weight"),
                )
            if self.cohort is None and not any(quota.nominal for quota in team.quotas):
                raise problem(
                    "queue_empty",
                    "the team has no quota and cannot borrow, so its Jobs would wait forever; raise nominal, or set cohort",
                    at=(*at, "quotas"),
                )
            self._preemption_rules((*at, "preemption"), team.preemption)
        return self

    def _preemption_rules(self, at: tuple[str, ...], preemption: Preemption) -> None:
        reclaim, borrow = preemption.reclaim_within_cohort, preemption.borrow_within_cohort
        if reclaim != NEVER and self.cohort is None:
            raise problem(
                "queue_reclaim",
                "a team can reclaim quota only within a cohort; set cohort, or remove reclaimWithinCohort",
                at=(*at, "reclaimWithinCohort"),
            )
        if borrow != NEVER and (reclaim == NEVER or self.fair_sharing):
            why = (
                "Kueue does not support this with fair sharing; remove it, or fairSharing"
                if self.fair_sharing
                else "Kueue allows this only together with reclaimWithinCohort; set reclaimWithinCohort, or remove it"
            )
            raise problem("queue_borrow_preemption", why, at=(*at, "borrowWithinCohort"))

    @model_validator(mode="after")
    def _one_team_a_namespace(self) -> Self:
        """Refuse a namespace that two teams have: its Jobs would all wait in the queue of one team."""
        holders: dict[str, str] = {}
        for name, team in self.teams.items():
            for index, namespace in enumerate(team.namespaces):
                if namespace in holders:
                    raise problem(
                        "queue_namespace_twice",
                        f"team {holders[namespace]} has this namespace already; remove one",
                        at=("teams", name, "namespaces", str(index)),
                    )
                holders[namespace] = name
        return self


def require_queues(queues: Queues, pools: Mapping[str, Pool]) -> None:
    """Refuse quotas of unknown pools, and quotas whose sum is larger than a pool. Raises a settings problem.

    A pool has its maximum number of nodes, each of the type with the fewest units.
    """
    handed: Counter[str] = Counter()
    for team, index, quota in queues.quotas():
        at = ("queues", "teams", team, "quotas", str(index))
        require_pool("queue_pool", quota.pool, pools, at=(*at, "pool"))
        handed[quota.pool] += quota.nominal
        most = units(pools[quota.pool])
        if handed[quota.pool] > most:
            raise problem(
                "queue_nominal",
                f"teams have {handed[quota.pool]} of pool {quota.pool} together, which has {most} {pools[quota.pool].resource} "
                "at most; lower nominal, or raise the pool's nodes.max",
                at=(*at, "nominal"),
            )


def units(pool: Pool) -> int:
    """Units of a pool with its maximum number of nodes, each of the type with the fewest units."""
    return pool.nodes.max * min(map(pool.units, pool.machines))
