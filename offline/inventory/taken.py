"""What of a pool is asked for at most, and what it holds: in units of the resource that its nodes advertise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.settings.cluster import Cluster
from fleet.settings.queues import units
from offline.inventory.users import Group, User


@dataclass(frozen=True, slots=True)
class Taken:
    """Units of one pool: `held` by all its nodes, `kept` at all times, and what each kind of user takes at most.

    Of `jobs` those that wait in a queue are left out: they take of what `queues` hand out.
    """

    pool: str
    held: int
    kept: int
    runners: int
    workloads: int
    jobs: int
    queues: int

    @property
    def most(self) -> int:
        """All of them at once."""
        return self.runners + self.workloads + self.jobs + self.queues


def taken(settings: Cluster, found: Iterable[User]) -> tuple[Taken, ...]:
    """Each pool of a cluster, given its users."""
    here = list(found)
    return tuple(_pool(settings, name, [user for user in here if user.pool == name]) for name in settings.pools)


def _pool(settings: Cluster, name: str, here: list[User]) -> Taken:
    def most(group: Group) -> int:
        return sum(user.units for user in here if user.group is group and not user.queue)

    return Taken(
        pool=name,
        held=units(settings.pools[name]),
        kept=sum(user.least * user.pod.gpus for user in here if user.stands or user.group is Group.RUNNERS),
        runners=most(Group.RUNNERS),
        workloads=most(Group.WORKLOAD),
        jobs=most(Group.JOB),
        queues=settings.queues.nominal(name) if settings.queues is not None else 0,
    )
