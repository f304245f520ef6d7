"""A program that declares the part of a stack that is in Git. `make render` writes it to files, and a plan checks it.

Pulumi's engine never runs it: `pulumi up` creates the cloud resources, and ArgoCD installs this part.
"""

from collections.abc import Callable
from typing import Any

import pulumi

from components.config import read_fleet
from components.context import Context
from components.kubernetes import git_tree
from components.talos import stack as talos
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.providers.registry import PROVIDERS

_BUILDERS: dict[str, Callable[[str, Any, Fleet, Context], None]] = {"talos": talos.build}
"""By provider, for clusters that `pulumi up` does not deploy."""


def declare(fleet: Fleet, context: Context) -> None:
    """Declare the part in Git of every cluster in which ArgoCD installs charts."""
    for name, cluster in fleet.clusters_by_name():
        if not PROVIDERS[cluster.provider].deployable:
            _BUILDERS[cluster.provider](name, cluster, fleet, context)
        elif cluster.by_git:
            git_tree.declare(name, cluster, fleet, context)


if __name__ == "__main__":
    declare(read_fleet(pulumi.Config(NAMESPACE)), Context(pulumi.get_project(), pulumi.get_stack(), {}))
