"""Where a cluster's files lie in Git: `make render` calls the folder, and ArgoCD looks where the settings say."""

from __future__ import annotations

from fleet.facts.errors import FleetError, Problem, shown
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.cluster import physical_name


def require_folders(fleet: Fleet, project: str, stack: str) -> None:
    """Raise FleetError for each path that ends otherwise than the cluster's folder is called: ArgoCD would find nothing there."""
    problems = []
    for name, cluster in fleet.clusters_by_name():
        folder = physical_name(project, stack, name)
        if cluster.gitops is not None and cluster.gitops.path.rpartition("/")[2] != folder:
            message = f"the folder that make render writes for the cluster is {folder}; end the path with it"
            problems.append(Problem((f"{NAMESPACE}:clusters", name, "gitops", "path"), message, shown(cluster.gitops.path)))
    if problems:
        raise FleetError(tuple(problems))
