"""A model of how Kueue admits Jobs to the queues of this project: at most one cohort, no preemption, the first pool that fits.

It follows kubernetes-sigs/kueue v0.19.2 (pkg/cache/scheduler/resource_node.go and fair_sharing.go, pkg/scheduler). It reads only
the manifests, not the settings from which the program creates them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.fleet.kueue_rules import quantity

Cell = tuple[str, str]
"""Flavor and resource."""


@dataclass(frozen=True)
class Limits:
    """A cell's quota in one ClusterQueue; a limit that is None is none."""

    nominal: Fraction
    borrow: Fraction | None
    lend: Fraction | None

    @property
    def local(self) -> Fraction:
        """Jobs that never leave the queue."""
        return Fraction(0) if self.lend is None else max(Fraction(0), self.nominal - self.lend)


@dataclass
class Queue:
    """A ClusterQueue: what it has, and what its Jobs use."""

    name: str
    cohort: str | None
    weight: Fraction
    flavors: tuple[str, ...]
    limits: Mapping[Cell, Limits]
    used: dict[Cell, Fraction] = field(default_factory=dict)

    def uses(self, cell: Cell) -> Fraction:
        """What its Jobs use of a cell."""
        return self.used.get(cell, Fraction(0))

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Queue:
        """The queue that a manifest describes."""
        spec = manifest["spec"]
        (group,) = spec["resourceGroups"]
        return cls(
            manifest["metadata"]["name"],
            spec.get("cohortName"),
            quantity(spec.get("fairSharing", {}).get("weight", 1)),
            tuple(flavor["name"] for flavor in group["flavors"]),
            {(flavor["name"], quota["name"]): _limits(quota) for flavor in group["flavors"] for quota in flavor["resources"]},
        )


def _limits(quota: Mapping[str, Any]) -> Limits:
    def read(key: str) -> Fraction | None:
        return quantity(quota[key]) if key in quota else None

    return Limits(quantity(quota["nominalQuota"]), read("borrowingLimit"), read("lendingLimit"))


@dataclass(frozen=True)
class Job:
    """What one Job asks of each resource, in base units; `pool` is the one that its selector names, if any."""

    asks: Mapping[str, Fraction]
    pool: str | None = None


class Kueue:
    """ClusterQueues and the Jobs that run in them."""

    def __init__(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        self.queues = {queue.name: queue for queue in map(Queue.of, manifests)}

    def available(self, queue: Queue, cell: Cell) -> Fraction:
        """The amount of a cell that a queue may still use: its own quota and what others lend."""
        limits, used = queue.limits[cell], queue.uses(cell)
        if queue.cohort is None:
            return limits.nominal - used
        shared = self._lendable(queue.cohort, cell) - self._taken(queue.cohort, cell)
        if limits.borrow is not None:
            shared = min(limits.nominal - limits.local - max(Fraction(0), used - limits.local) + limits.borrow, shared)
        return max(Fraction(0), limits.local - used) + shared

    def _members(self, cohort: str | None) -> list[Queue]:
        return [queue for queue in self.queues.values() if queue.cohort == cohort]

    def _lendable(self, cohort: str, cell: Cell) -> Fraction:
        held = (queue.limits[cell] for queue in self._members(cohort) if cell in queue.limits)
        return sum((limits.nominal - limits.local for limits in held), Fraction(0))

    def _taken(self, cohort: str, cell: Cell) -> Fraction:
        held = [queue for queue in self._members(cohort) if cell in queue.limits]
        return sum((max(Fraction(0), each.uses(cell) - each.limits[cell].local) for each in held), Fraction(0))

    def fits(self, queue: Queue, flavor: str, job: Job) -> bool:
        """Whether a flavor has room for all that a Job asks."""
        return all(
            (flavor, resource) in queue.limits and amount <= self.available(queue, (flavor, resource))
            for resource, amount in job.asks.items()
        )

    def flavor_for(self, queue: Queue, job: Job) -> str | None:
        """The first flavor that the Job may take and that has room for it."""
        return next((each for each in queue.flavors if job.pool in (None, each) and self.fits(queue, each, job)), None)

    def submit(self, name: str, job: Job) -> str | None:
        """Let a Job in if it fits; its flavor, or None if it waits."""
        queue = self.queues[name]
        flavor = self.flavor_for(queue, job)
        if flavor is not None:
            self._take(queue, flavor, job)
        return flavor

    def _take(self, queue: Queue, flavor: str, job: Job) -> None:
        for resource, amount in job.asks.items():
            queue.used[flavor, resource] = queue.uses((flavor, resource)) + amount

    def share(self, queue: Queue, flavor: str, job: Job) -> tuple[bool, Fraction]:
        """Dominant resource share of a queue with a Job more: what it borrows of what the cohort lends, by its weight.

        Before it, whether it borrows without any weight, which puts it behind all others.
        """
        every = {cell for each in self._members(queue.cohort) for cell in each.limits}
        ratios = [Fraction(0)]
        for resource in {resource for _, resource in queue.limits}:
            lendable = sum((self._lendable(queue.cohort or "", cell) for cell in every if cell[1] == resource), Fraction(0))
            borrowed = sum(
                (self._borrowed(queue, cell, flavor, job) for cell in queue.limits if cell[1] == resource), Fraction(0)
            )
            ratios.append(borrowed / lendable if lendable else Fraction(0))
        weightless = queue.weight == 0
        return weightless and max(ratios) > 0, max(ratios) / (1 if weightless else queue.weight)

    def _borrowed(self, queue: Queue, cell: Cell, flavor: str, job: Job) -> Fraction:
        """What of a cell is not its own, with a Job more in a flavor."""
        more = job.asks.get(cell[1], Fraction(0)) if cell[0] == flavor else Fraction(0)
        return max(Fraction(0), queue.uses(cell) + more - queue.limits[cell].nominal)

    def run(self, waiting: Mapping[str, Sequence[Job]]) -> dict[str, int]:
        """How many Jobs of each queue run, if all wait at once and fair sharing is on; the first named is the oldest.

        In each cycle the first Job of every queue has a flavor chosen. Then those that borrow nothing are admitted, then the one
        with the least share; one whose flavor others filled meanwhile waits for the next cycle.
        """
        heads = {name: list(jobs) for name, jobs in waiting.items()}
        running = dict.fromkeys(waiting, 0)
        while True:
            chosen = {name: self.flavor_for(self.queues[name], jobs[0]) for name, jobs in heads.items() if jobs}
            cycle = {name: flavor for name, flavor in chosen.items() if flavor is not None}
            if not cycle:
                return running
            while cycle:
                name = min(cycle, key=lambda each: self._rank(each, cycle[each], heads[each][0]))
                queue, flavor, job = self.queues[name], cycle.pop(name), heads[name][0]
                if self.fits(queue, flavor, job):
                    self._take(queue, flavor, job)
                    heads[name].pop(0)
                    running[name] += 1

    def _rank(self, name: str, flavor: str, job: Job) -> tuple[bool, bool, Fraction]:
        queue = self.queues[name]
        borrows = any(self._borrowed(queue, (flavor, resource), flavor, job) for resource in job.asks)
        return borrows, *self.share(queue, flavor, job)
