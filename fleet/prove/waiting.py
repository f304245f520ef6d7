"""The pods that run while no job does: runners that wait, placeholders, and workloads that always run."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.bill import Waiting
from fleet.prove.placement import per_node, pool_hosts
from fleet.prove.room import fits, standing
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner


def _waits(runner: PodRunner) -> bool:
    return bool(runner.scale.min) or runner.schedules is not None


def waiting_per_node(cluster: Cluster, runner: PodRunner) -> int:
    """How many runners that wait a node holds; 1 for a class of which none ever waits."""
    hosts = pool_hosts(cluster) if _waits(runner) else {}
    return per_node(runner, map(hosts.__getitem__, runner.ordered)) if hosts else 1


def waiting(name: str, cluster: Cluster) -> Iterator[Waiting]:
    """What always runs in the pools of a cluster, whose name is `name`."""
    hosts = pool_hosts(cluster) if cluster.pools else {}
    for runner in cluster.pod_runners.values():
        if _waits(runner):
            windows = runner.schedules.kept if runner.schedules is not None else ()
            count = per_node(runner, map(hosts.__getitem__, runner.ordered))
            yield Waiting(cluster=name, pools=runner.ordered, least=runner.scale.min, per_node=count, windows=windows)
    for pool_name, pool in cluster.pools.items():
        if pool.placeholders:
            yield Waiting(cluster=name, pools=(pool_name,), least=pool.placeholders)
        for _, workload in standing(cluster, pool_name):
            yield Waiting(cluster=name, pools=(pool_name,), least=1, per_node=fits(cluster, workload))
