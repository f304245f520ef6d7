"""Declares one Talos cluster of a fleet: what its machines are and what Git has of it."""

from __future__ import annotations

from components.context import Context
from components.kubernetes import git_tree
from components.talos.talos_gpu_node import TalosGpuNode, TalosGpuNodeArgs
from fleet.providers.fleet import Fleet
from fleet.providers.talos.cluster import TalosCluster


def build(name: str, settings: TalosCluster, fleet: Fleet, context: Context) -> None:
    """The cluster `name` of the fleet, for a plan and for `make render`: nothing of it is deployed by Pulumi."""
    for pool_name, pool in settings.pools.items():
        for hostname, host in pool.nodes.hosts.items():
            args = TalosGpuNodeArgs(name, context.cluster_name(name), pool_name, pool, hostname, host)
            # A dot before what the settings name: no two joins of names meet.
            TalosGpuNode(f"{name}.{hostname}", args)
    git_tree.declare(name, settings, fleet, context)
