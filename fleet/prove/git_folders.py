"""Checks of names that have project, stack and cluster in them: the folder in Git that ArgoCD reads, and a cluster of EKS."""

from __future__ import annotations

from fleet.facts.cloud_limits import limit
from fleet.facts.errors import FleetError, Problem, shown
from fleet.providers.fleet import NAMESPACE, Fleet
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
    """Raise FleetError for each EKS cluster whose name in AWS would be too long: it has project, stack and cluster."""
    most = limit("eks:index:Cluster", "name").most or 0
    problems = []
    for name, cluster in fleet.clusters_by_name():
        if cluster.provider == "eks" and cluster.found is None and len(full := physical_name(project, stack, name)) > most:
            message = (
                f"EKS would call the cluster {full}, {len(full)} characters, and takes {most}; shorten the name of the "
                "cluster or of the stack"
            )
            problems.append(Problem((f"{NAMESPACE}:clusters", name), message, shown(name), "eks_name"))
    if problems:
        raise FleetError(tuple(problems))
