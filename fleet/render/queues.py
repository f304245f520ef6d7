"""Kueue's objects for a cluster: flavors of pools, a ClusterQueue for each team, its LocalQueues, and priorities.

Pure functions from the settings to plain manifests (kueue.x-k8s.io/v1beta2). A team's quota of CPU and memory follows its quota
of GPUs: a team with half of a pool's units also gets half of the CPU and memory that the pool's nodes leave to pods. So neither
runs out while GPUs are free.
"""

from collections.abc import Mapping
from typing import Any

from fleet.charts.chart import manifests, part
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import DEFAULT_QUEUE, JOB_PRIORITIES, NAMESPACE_NAME_LABEL, WAIT_FOR, SchedulingProfile, flavor_labels
from fleet.prove.placement import pool_hosts
from fleet.prove.quota import Share, share
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.queues import Queues, Quota, Team

API = "kueue.x-k8s.io/v1beta2"


class TeamQueue(Record):
    """Kueue's objects for a team: its ClusterQueue, and the LocalQueues of each of its namespaces."""

    cluster_queue: Manifest
    local_queues: Mapping[str, tuple[Manifest, ...]]

    @property
    def flavors(self) -> list[str]:
        """The flavors that its ClusterQueue names."""
        return [flavor["name"] for group in self.cluster_queue["spec"]["resourceGroups"] for flavor in group["flavors"]]


class QueueObjects(Record):
    """Kueue's objects for a cluster: priorities, the flavors that have a quota, and each team's objects by its name."""

    priorities: tuple[Manifest, ...]
    flavors: tuple[Manifest, ...]
    teams: Mapping[str, TeamQueue]


def queue_objects(name: str, cluster: Cluster, queues: Queues) -> QueueObjects:
    """All of Kueue's objects for the queues of the cluster `name`. A flavor exists only if a team has a quota of it."""
    profile = PROVIDERS[cluster.provider].profile
    names = queues.flavor_names(cluster.pools)
    pools = {flavor_name: {pool: cluster.pools[pool] for pool in queues.pools_of(flavor_name)} for flavor_name in names}
    hosts = pool_hosts(cluster)
    shares = {flavor_name: share(*(hosts[pool] for pool in members)) for flavor_name, members in pools.items()}
    # Kueue orders a queue by classes with the names and values of the PriorityClasses.
    ranks = ((priority.name, {"value": priority.value, "description": priority.meaning}) for priority in JOB_PRIORITIES)
    priorities = tuple(manifest(API, "WorkloadPriorityClass", title) | values for title, values in ranks)
    teams = {}
    for team, settings in queues.teams.items():
        of_spaces = {namespace: local_queues(team, namespace) for namespace in settings.namespaces}
        teams[team] = TeamQueue(cluster_queue(team, settings, queues, pools, shares), of_spaces)
    return QueueObjects(priorities, tuple(flavor(title, members, name, profile) for title, members in pools.items()), teams)


def flavor(name: str, pools: Mapping[str, Pool], cluster: str, profile: SchedulingProfile) -> Manifest:
    """ResourceFlavor of one pool or of several: the labels and taints of their nodes, and the tolerations that its Jobs get.

    Kueue does not admit a Job here whose selector names another pool. A Job without a selector gets the labels that the pools
    have in common as its selector, and among them is a label that no other pool has.
    """
    shared = "" if name in pools else name
    labels = [flavor_labels(pool.node_labels(cluster, key, profile, shared), profile).items() for key, pool in pools.items()]
    taints = dict.fromkeys(taint for pool in pools.values() for taint in pool.node_taints(profile))
    tolerations = dict.fromkeys(toleration for pool in pools.values() for toleration in profile.pod_tolerations(pool.capacity))
    node_labels = {key: value for key, value in labels[0] if all((key, value) in more for more in labels)}
    node_taints = [{"key": taint.key, "value": taint.value, "effect": str(taint.effect)} for taint in taints]
    spec = {"nodeLabels": node_labels, "nodeTaints": node_taints, "tolerations": manifests(tuple(tolerations))}
    return manifest(API, "ResourceFlavor", name, spec=spec)


def cluster_queue(
    name: str, team: Team, queues: Queues, pools: Mapping[str, Mapping[str, Pool]], shares: Mapping[str, Share]
) -> Manifest:
    """ClusterQueue of a team, in one resource group. Every pool has CPU and memory, and Kueue allows each in one group only.

    Kueue's webhook requires that each flavor lists all resources in the same order, with 0 of those that its pool lacks. The
    provider waits until the queue is active. It is inactive while a flavor is missing.
    """
    of = {quota.name: next(iter(pools[quota.name].values())).resource for quota in team.quotas}
    resources = sorted(set(of.values()))
    flavors = [{"name": one.name, "resources": _quotas(one, of[one.name], shares[one.name], resources)} for one in team.quotas]
    namespaces = {"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": sorted(team.namespaces)}
    preemption = team.preemption.model_dump()
    # The cohort's name links queues. A cohort without its own quotas needs no object.
    more = {"cohort": queues.cohort, "sharing": {"weight": str(team.weight)} if queues.fair_sharing else None}
    covered = {"resources": ["cpu", "memory", *resources], "flavors": flavors, "namespaces": namespaces}
    spec = part(__file__, "cluster_queue", strategy=team.strategy, **preemption, **more, **covered)
    return manifest(API, "ClusterQueue", name, spec=spec, annotations={WAIT_FOR: "condition=Active"})


def local_queues(team: str, namespace: str) -> tuple[Manifest, ...]:
    """LocalQueues of a namespace: one with the team's name, and the default one for Jobs that name no queue.

    Without the default one these Jobs would start without any queue.
    """
    names = dict.fromkeys((team, DEFAULT_QUEUE))
    return tuple(manifest(API, "LocalQueue", name, namespace, {"clusterQueue": team}) for name in names)


def _quotas(quota: Quota, resource: str, unit: Share, resources: list[str]) -> list[Manifest]:
    def amounts(name: str, of: Mapping[str, int | None], text: Any = str) -> Manifest:
        return {"name": name} | {limit: text(units) for limit, units in of.items() if units is not None}

    limits = {"nominalQuota": quota.nominal, "borrowingLimit": quota.borrow, "lendingLimit": quota.lend}
    return [
        amounts("cpu", limits, lambda units: cpu_text(units * unit.cpu)),
        amounts("memory", limits, lambda units: memory_text(units * unit.memory)),
        *(amounts(name, limits if name == resource else {"nominalQuota": 0}) for name in resources),
    ]
