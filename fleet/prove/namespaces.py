"""Checks that no team uses the namespace of a chart."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts import NAMESPACES
from fleet.facts.errors import Problem, shown
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import ARGO_CD_TAKEN, MONITORING_TAKEN, TAKEN

_MESSAGES = {"git_namespace": ARGO_CD_TAKEN, "monitoring_namespace": MONITORING_TAKEN, "namespace_taken": TAKEN}


def problems(fleet: Fleet) -> Iterator[Problem]:
    """One problem for each setting that names a chart's namespace, in the order of the clusters."""
    for name, cluster in fleet.clusters_by_name():
        for path, namespace, rule in _named(cluster):
            if namespace in NAMESPACES:
                yield Problem((f"{NAMESPACE}:clusters", name, *path), _MESSAGES[rule], shown(namespace), rule)


def _named(cluster: Cluster) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(path, namespace, name of the broken rule if a chart has it) of every namespace in a cluster's settings."""
    if cluster.gitops is not None:
        yield ("gitops", "namespace"), cluster.gitops.namespace, "git_namespace"
    if cluster.monitoring is not None and cluster.monitoring.installs:
        yield ("monitoring", "namespace"), cluster.monitoring.namespace, "monitoring_namespace"
    for team, settings in cluster.queues.teams.items() if cluster.queues is not None else ():
        for index, namespace in enumerate(settings.namespaces):
            yield ("queues", "teams", team, "namespaces", str(index)), namespace, "namespace_taken"
    for name, workload in cluster.workloads.items():
        yield ("workloads", name, "namespace"), workload.namespace, "namespace_taken"
    for name, cache in cluster.caches.items():
        for index, namespace in enumerate(cache.namespaces):
            yield ("caches", name, "namespaces", str(index)), namespace, "namespace_taken"
    for name, job in cluster.jobs.items():
        yield ("jobs", name, "namespace"), job.namespace, "namespace_taken"
