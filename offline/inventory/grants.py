"""What each team has of each pool, read from the ClusterQueues that Kueue is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.render.queues import TeamQueue, queue_objects
from fleet.settings.cluster import Cluster
from fleet.settings.queues import NEVER
from offline.inventory.quantities import mebibytes, millicores


@dataclass(frozen=True, slots=True)
class Grant:
    """A team's part of one pool: units of `resource`, with the millicores and MiB that go with them.

    `borrow` and `lend` are None where nothing but the cohort bounds them.
    """

    team: str
    namespaces: tuple[str, ...]
    queues: tuple[str, ...]
    pool: str
    resource: str
    nominal: int
    borrow: int | None
    lend: int | None
    cpu: int
    memory: int
    ends: str
    """Whose Jobs it may end for one of its own, in Kueue's words; empty where nobody's."""


def grants(name: str, settings: Cluster) -> tuple[Grant, ...]:
    """All of the cluster of this name, by team and pool; none without queues."""
    if settings.queues is None:
        return ()
    objects = queue_objects(name, settings, settings.queues)
    return tuple(grant for team, queue in objects.teams.items() for grant in _grants(settings, team, queue))


def _grants(settings: Cluster, team: str, queue: TeamQueue) -> Iterator[Grant]:
    spec = queue.cluster_queue["spec"]
    names = dict.fromkeys(each["metadata"]["name"] for held in queue.local_queues.values() for each in held)
    (group,) = spec["resourceGroups"]
    for flavor in group["flavors"]:
        quotas = {each["name"]: each for each in flavor["resources"]}
        resource = settings.pools[flavor["name"]].resource
        gpus = quotas[resource]
        yield Grant(
            team,
            tuple(queue.local_queues),
            tuple(names),
            flavor["name"],
            resource,
            int(gpus["nominalQuota"]),
            _limit(gpus, "borrowingLimit"),
            _limit(gpus, "lendingLimit"),
            millicores(quotas["cpu"]["nominalQuota"]),
            mebibytes(quotas["memory"]["nominalQuota"]),
            _ends(spec["preemption"]),
        )


def _ends(preemption: Mapping[str, Any]) -> str:
    policies = {**preemption, "borrowWithinCohort": preemption["borrowWithinCohort"]["policy"]}
    return ", ".join(f"{where}: {policy}" for where, policy in policies.items() if policy != NEVER)


def _limit(quota: Mapping[str, Any], name: str) -> int | None:
    return int(quota[name]) if name in quota else None
