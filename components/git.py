"""What Git has of a stack, as a program of its own: `make render` writes what it declares, a plan judges it.

No engine runs it: `pulumi up` makes the clouds and leaves this to ArgoCD.
"""

from __future__ import annotations

import pulumi

from components.config import read_fleet
from components.context import Context
from components.kubernetes import git_tree
from fleet.providers import PROVIDERS, imported
from fleet.settings import NAMESPACE, Fleet


def declare(fleet: Fleet, context: Context) -> None:
    """Declare what Git has of every cluster that ArgoCD fills."""
    for name, cluster in fleet.clusters_by_name():
        row = PROVIDERS[cluster.provider]
        if not row.deployable:
            imported(row.builder)(name, cluster, fleet, context)
        elif cluster.by_git:
            git_tree.declare(name, cluster, fleet, context)


if __name__ == "__main__":
    declare(read_fleet(pulumi.Config(NAMESPACE)), Context(pulumi.get_project(), pulumi.get_stack(), {}))
