"""What monitoring takes of a cluster's nodes, for the plan. The bill has its volume."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.chart import Pod, Where
from fleet.facts.remark import Remark, costs
from fleet.prove.launchers import system_room
from fleet.providers.fleet import Fleet
from fleet.providers.installed import monitoring_pods
from fleet.providers.registry import provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.model import cpu_text, memory_text


def remarks(fleet: Fleet) -> Iterator[str]:
    """Machines without metrics, what the parts of monitoring request, and whether the system pool must grow for them."""
    for name, cluster in fleet.clusters_by_name():
        yield from (f"{name}: {remark}" for remark in provider_of(cluster).push_remarks(cluster))
        pods = monitoring_pods(cluster)
        if not pods:
            continue
        places: tuple[tuple[Where, str], ...] = (
            ("system pool", "of the system pool"),
            ("all nodes", "of each node"),
            ("GPU nodes", "of each GPU node"),
        )
        if cluster.monitoring is not None and cluster.monitoring.cloudwatch:
            yield costs(f"{name}: the bill does not have what CloudWatch charges for its metrics, by GB: the price is not known")
        taken = [f"{_sum(found)} {where}" for on, where in places if (found := [pod for pod in pods if pod.on == on])]
        growth = _growth(name, cluster, fleet)
        yield Remark(f"{name}: monitoring requests {', '.join(taken)}{growth}", act=bool(growth))


def _sum(pods: list[Pod]) -> str:
    return f"{cpu_text(sum(pod.cpu for pod in pods))} CPU and {memory_text(sum(pod.memory for pod in pods))}"


def _growth(name: str, cluster: Cluster, fleet: Fleet) -> str:
    """A warning if the pods of all charts do not fit on the smallest system pool, whose nodes the idle price counts."""
    if system_room(name, cluster, fleet.github) != []:
        return ""
    return "; the charts of the cluster do not fit on the system pool at its smallest size, so raise system.nodes"
