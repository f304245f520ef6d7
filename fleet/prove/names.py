"""Checks of names: no setting names a chart's namespace, and what has project, stack and cluster in its name fits its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.charts import NAMESPACES
from fleet.facts.errors import FleetError, Problem, shown
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.registry import provider_of
from fleet.settings.cluster import Cluster, physical_name
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
    teams = cluster.queues.teams if cluster.queues is not None else {}
    parts: dict[str, Mapping[str, Any]] = {"queues.teams": teams, "workloads": cluster.workloads, "caches": cluster.caches}
    for kind, entries in (parts | {"jobs": cluster.jobs}).items():
        for name, entry in entries.items():
            at = (*kind.split("."), name)
            if kind in ("workloads", "jobs"):
                yield (*at, "namespace"), entry.namespace, "namespace_taken"
                continue
            for index, namespace in enumerate(entry.namespaces):
                yield (*at, "namespaces", str(index)), namespace, "namespace_taken"


def require_names(fleet: Fleet, project: str, stack: str) -> None:
    """Raise FleetError for names that do not fit.

    They are each `gitops.path` that does not end with the name of the cluster's folder, where ArgoCD would find no files, and
    otherwise each cluster whose name its cloud would refuse.
    """
    folders, refused = [], []
    for name, cluster in fleet.clusters_by_name():
        at, folder = (f"{NAMESPACE}:clusters", name), physical_name(project, stack, name)
        if cluster.gitops is not None and cluster.gitops.path.rpartition("/")[2] != folder:
            message = f"make render writes the cluster's files to the folder {folder}; end the path with it"
            folders.append(Problem((*at, "gitops", "path"), message, shown(cluster.gitops.path)))
        if fault := provider_of(cluster).physical_name_fault(cluster, folder):
            refused.append(Problem(at, fault, shown(name), f"{cluster.provider}_name"))
    if wrong := folders or refused:
        raise FleetError(tuple(wrong))
