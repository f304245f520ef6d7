"""What Git has of a stack, as a program of its own: `make render` writes what it declares, a plan judges it.

No engine runs it: `pulumi up` makes the clouds and leaves this to ArgoCD.
"""

from __future__ import annotations

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
"""By provider, of those that `pulumi up` does not deploy."""


def declare(fleet: Fleet, context: Context) -> None:
    """Declare what Git has of every cluster that ArgoCD fills."""
    for name, cluster in fleet.clusters_by_name():
        if not PROVIDERS[cluster.provider].deployable:
            _BUILDERS[cluster.provider](name, cluster, fleet, context)
        elif cluster.by_git:
            git_tree.declare(name, cluster, fleet, context)


if __name__ == "__main__":
    declare(read_fleet(pulumi.Config(NAMESPACE)), Context(pulumi.get_project(), pulumi.get_stack(), {}))
