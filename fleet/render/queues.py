"""What Kueue is told of a cluster: a flavor for each pool, a ClusterQueue for each team, its LocalQueues, and priorities.

Pure functions of the settings to plain manifests (kueue.x-k8s.io/v1beta2). CPU and memory go with the GPUs: a team has that part
of what a pool's nodes leave to pods which its units are of the pool's, so that neither runs out while GPUs are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.charts.chart import manifests
from fleet.facts.scheduling import (
    DEFAULT_QUEUE,
    JOB_PRIORITIES,
    NAMESPACE_NAME_LABEL,
    WAIT_FOR,
    Priority,
    SchedulingProfile,
    Taint,
    flavor_labels,
)
from fleet.prove.placement import pool_hosts
from fleet.prove.shares import Share, share
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.pool import Pool
from fleet.settings.queues import Queues, Quota, Team

API = "kueue.x-k8s.io/v1beta2"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TeamQueue:
    """What Kueue is told of a team: its ClusterQueue, and the LocalQueues of each of its namespaces."""

    cluster_queue: Manifest
    local_queues: Mapping[str, tuple[Manifest, ...]]

    @property
    def flavors(self) -> list[str]:
        """The flavors that its ClusterQueue names."""
        return [flavor["name"] for group in self.cluster_queue["spec"]["resourceGroups"] for flavor in group["flavors"]]


@dataclass(frozen=True, slots=True)
class QueueObjects:
    """Kueue's objects of a cluster: priorities, a flavor for each pool in some quota, and each team's by its name."""

    priorities: tuple[Manifest, ...]
    flavors: tuple[Manifest, ...]
    teams: Mapping[str, TeamQueue]

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """All of them. Each names only what stands before it."""
        queues = self.teams.values()
        local_queues = (each for queue in queues for held in queue.local_queues.values() for each in held)
        return (*self.priorities, *self.flavors, *(queue.cluster_queue for queue in queues), *local_queues)


def queue_objects(name: str, cluster: Cluster, queues: Queues) -> QueueObjects:
    """All of Kueue's objects for the queues of the cluster of this name; pools of which no team has a quota get no flavor."""
    profile = PROVIDERS[cluster.provider].profile
    pools: dict[str, Pool] = {pool: cluster.pools[pool] for pool in cluster.pools if pool in queues.pools}
    hosts = pool_hosts(cluster)
    shares = {pool: share(hosts[pool]) for pool in pools}
    return QueueObjects(
        priorities=tuple(map(workload_priority, JOB_PRIORITIES)),
        flavors=tuple(flavor(pool, held, name, profile) for pool, held in pools.items()),
        teams={
            team: TeamQueue(
                cluster_queue(team, held, queues, pools, shares),
                {namespace: local_queues(team, namespace) for namespace in held.namespaces},
            )
            for team, held in queues.teams.items()
        },
    )


def flavor(name: str, pool: Pool, cluster: str, profile: SchedulingProfile) -> Manifest:
    """ResourceFlavor of a pool: the labels and taints that its nodes have, and the tolerations that its Jobs get.

    A Job whose selector is of another pool is not let in here; one without a selector gets this pool's.
    """
    taints = (profile.gpu_taint, *((profile.spot_taint,) if profile.spot_taint and pool.capacity == "spot" else ()))
    return _object(
        "ResourceFlavor",
        name,
        spec={
            "nodeLabels": flavor_labels(pool.node_labels(cluster, name, profile), profile),
            "nodeTaints": [_taint(taint) for taint in taints],
            "tolerations": manifests(profile.pod_tolerations(pool.capacity)),
        },
    )


def cluster_queue(name: str, team: Team, queues: Queues, pools: Mapping[str, Pool], shares: Mapping[str, Share]) -> Manifest:
    """ClusterQueue of a team, in one resource group: CPU and memory may stand in one only, and every pool has them.

    Each flavor lists all resources in one order, with 0 of what its pool has not, as Kueue's webhook demands. The provider waits
    until the queue is active, which it is not while a flavor is missing.
    """
    resources = sorted({pools[quota.pool].resource for quota in team.quotas})
    spec: dict[str, Any] = {
        "namespaceSelector": {
            "matchExpressions": [{"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": sorted(team.namespaces)}]
        },
        "queueingStrategy": team.strategy,
        "preemption": {
            "withinClusterQueue": team.preemption.within_cluster_queue,
            "reclaimWithinCohort": team.preemption.reclaim_within_cohort,
            "borrowWithinCohort": {"policy": team.preemption.borrow_within_cohort},
        },
        "resourceGroups": [
            {
                "coveredResources": ["cpu", "memory", *resources],
                "flavors": [
                    {"name": quota.pool, "resources": _quotas(quota, pools[quota.pool], shares[quota.pool], resources)}
                    for quota in team.quotas
                ],
            }
        ],
    }
    if queues.cohort is not None:
        # A name that links queues: without quotas of its own a cohort needs no object.
        spec["cohortName"] = queues.cohort
    if queues.fair_sharing:
        spec["fairSharing"] = {"weight": str(team.weight)}
    return _object("ClusterQueue", name, annotations={WAIT_FOR: "condition=Active"}, spec=spec)


def local_queues(team: str, namespace: str) -> tuple[Manifest, ...]:
    """LocalQueues of a namespace: of the team's name for Jobs that say so, and the default for those that name no queue.

    Without the second they would go round every queue.
    """
    names = dict.fromkeys((team, DEFAULT_QUEUE))
    return tuple(_object("LocalQueue", name, namespace=namespace, spec={"clusterQueue": team}) for name in names)


def workload_priority(priority: Priority) -> Manifest:
    """WorkloadPriorityClass of the name and value of a class of pods: it orders the queue."""
    return _object("WorkloadPriorityClass", priority.name, value=priority.value, description=priority.meaning)


def _quotas(quota: Quota, pool: Pool, each: Share, resources: list[str]) -> list[Manifest]:
    def amounts(name: str, of: Mapping[str, int | None], text: Any = str) -> Manifest:
        return {"name": name} | {limit: text(units) for limit, units in of.items() if units is not None}

    limits = {"nominalQuota": quota.nominal, "borrowingLimit": quota.borrow, "lendingLimit": quota.lend}
    return [
        amounts("cpu", limits, lambda units: cpu_text(units * each.cpu)),
        amounts("memory", limits, lambda units: memory_text(units * each.memory)),
        *(amounts(name, limits if name == pool.resource else {"nominalQuota": 0}) for name in resources),
    ]


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "value": taint.value, "effect": str(taint.effect)}


def _object(
    kind: str, name: str, *, namespace: str = "", annotations: Mapping[str, str] | None = None, **fields: Any
) -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **fields}
