"""Declares one Talos cluster of a fleet: its machines and its part in Git."""

from __future__ import annotations

from components.context import Context
from components.kubernetes import git_tree
from components.talos.talos_gpu_node import TalosGpuNode, TalosGpuNodeArgs
from fleet.providers.fleet import Fleet
from fleet.providers.talos.cluster import TalosCluster


def build(name: str, settings: TalosCluster, fleet: Fleet, context: Context) -> None:
    """The cluster `name` of the fleet, for a plan and for `make render`. Pulumi deploys none of it."""
    for pool_name, pool in settings.pools.items():
        for hostname, host in pool.nodes.hosts.items():
            args = TalosGpuNodeArgs(
                name, context.cluster_name(name), pool_name, pool, hostname, host, settings.flavor_of(pool_name)
            )
            # The dot keeps logical names with names from the settings distinct.
            TalosGpuNode(f"{name}.{hostname}", args)
    git_tree.declare(name, settings, fleet, context)
