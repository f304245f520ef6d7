"""Checks of names that have project, stack and cluster in them: the folder in Git that ArgoCD reads, and a cluster of EKS."""

from __future__ import annotations

from fleet.facts.errors import FleetError, Problem, shown
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.registry import provider_of
from fleet.settings.cluster import physical_name


def require_folders(fleet: Fleet, project: str, stack: str) -> None:
    """Raise FleetError for each `gitops.path` that does not end with the name of the cluster's folder.

    ArgoCD would find no files at such a path.
    """
    problems = []
    for name, cluster in fleet.clusters_by_name():
        folder = physical_name(project, stack, name)
        if cluster.gitops is not None and cluster.gitops.path.rpartition("/")[2] != folder:
            message = f"make render writes the cluster's files to the folder {folder}; end the path with it"
            problems.append(Problem((f"{NAMESPACE}:clusters", name, "gitops", "path"), message, shown(cluster.gitops.path)))
    if problems:
        raise FleetError(tuple(problems))


def require_names(fleet: Fleet, project: str, stack: str) -> None:
    """Raise FleetError for each cluster whose name its cloud would refuse: it has project, stack and cluster."""
    problems = []
    for name, cluster in fleet.clusters_by_name():
        if fault := provider_of(cluster).physical_name_fault(cluster, physical_name(project, stack, name)):
            problems.append(Problem((f"{NAMESPACE}:clusters", name), fault, shown(name), f"{cluster.provider}_name"))
    if problems:
        raise FleetError(tuple(problems))
