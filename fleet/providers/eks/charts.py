"""The charts that only EKS clusters have."""

from __future__ import annotations

from fleet.charts.chart import Chart
from fleet.charts.cluster_autoscaler import AUTOSCALER, cluster_autoscaler
from fleet.providers.eks.cluster import EksPools
from fleet.settings.github import GitHub


def eks_charts(cluster: EksPools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """Cluster Autoscaler, which finds its node groups by the cluster's physical name; none if the cluster has it already."""
    if AUTOSCALER in cluster.provided:
        return ()
    return (autoscaler(cluster, physical_name, by_priority=bool(cluster.pool_orders)),)


def autoscaler(cluster: EksPools, physical_name: str, *, by_priority: bool) -> Chart:
    """The chart of Cluster Autoscaler. `by_priority`: whether it prefers node groups by its ConfigMap."""
    name = physical_name if cluster.found is None else cluster.found.identity
    return cluster_autoscaler(name, cluster.region, cluster.kubernetes_version, cluster.system_selector, by_priority=by_priority)
