"""The pods that run while no job does: runners that wait, placeholders, and workloads that always run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleet.facts.bill import Waiting
from fleet.prove.placement import Host, fit, pool_hosts
from fleet.prove.room import fits, standing
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner


def per_node(runner: PodRunner, hosts: Mapping[str, Host]) -> int:
    """How many runners of a class each node of its pools holds at least. A class that does not fit is refused elsewhere."""
    return max(1, min(fit(runner, machine, hosts[name]).count for name in runner.ordered for machine in hosts[name].machines))


def waiting_per_node(cluster: Cluster, runner: PodRunner) -> int:
    """How many runners that wait a node holds; 1 for a class of which none ever waits."""
    return per_node(runner, pool_hosts(cluster)) if runner.scale.min or runner.schedules is not None else 1


def waiting(name: str, cluster: Cluster) -> Iterator[Waiting]:
    """What always runs in the pools of a cluster, whose name is `name`."""
    hosts = pool_hosts(cluster) if cluster.pools else {}
    for runner in cluster.pod_runners.values():
        if runner.scale.min or runner.schedules is not None:
            windows = runner.schedules.kept if runner.schedules is not None else ()
            count = per_node(runner, hosts)
            yield Waiting(cluster=name, pools=runner.ordered, least=runner.scale.min, per_node=count, windows=windows)
    for pool_name, pool in cluster.pools.items():
        if pool.placeholders:
            yield Waiting(cluster=name, pools=(pool_name,), least=pool.placeholders)
        for _, workload in standing(cluster, pool_name):
            yield Waiting(cluster=name, pools=(pool_name,), least=1, per_node=fits(cluster, workload))
