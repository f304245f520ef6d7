"""What an EKS cluster runs of its cloud's own: charts beside those that every cluster has."""

from __future__ import annotations

from fleet.charts.chart import Chart
from fleet.charts.cluster_autoscaler import cluster_autoscaler
from fleet.providers.eks.cluster import EksCluster
from fleet.settings.github import GitHub


def eks_charts(settings: EksCluster, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """The autoscaler, whose nodes' groups it finds by the cluster's physical name."""
    return (cluster_autoscaler(physical_name, settings.region, settings.kubernetes_version),)
