"""Everything that Prometheus and Grafana of a cluster read: monitors, rules and dashboards."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.charts.kube_prometheus import PROMETHEUS_CLASS
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.scheduling import REGION
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed
from fleet.render.monitoring.dashboards import dashboard_objects
from fleet.render.monitoring.monitors import API, monitors
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.settings.cluster import Cluster


def monitoring_objects(fleet: Fleet, cluster_name: str) -> list[Manifest]:
    """The objects of a cluster's monitoring, all but charts. Empty without monitoring.

    They need the kinds of Prometheus's operator.
    """
    cluster: Cluster = fleet.clusters[cluster_name]
    if cluster.monitoring is None:
        return []
    # No name of a release depends on the cluster's physical name.
    releases = {chart.name for chart in installed(cluster, cluster_name, fleet.github)}
    groups = [*rule_groups(fleet, cluster_name), *cost_groups(fleet, cluster_name)]
    monitoring = cluster.monitoring
    return [
        *monitors(cluster, monitoring, releases),
        manifest(API, "PrometheusRule", "gpu-ci", monitoring.namespace, {"groups": groups}, labels=dict(monitoring.labels)),
        *dashboard_objects(fleet, cluster_name),
    ]


def storage_class(cluster: Cluster, tags: Mapping[str, str]) -> Manifest:
    """The storage class of Prometheus's volume, where the program creates it. A deleted claim deletes its volume."""
    volumes = cluster.disk_class(tags)
    document = manifest("storage.k8s.io/v1", "StorageClass", PROMETHEUS_CLASS, annotations={REGION: cluster.region})
    return document | {
        "provisioner": volumes.provisioner,
        "parameters": dict(volumes.parameters),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": volumes.binding,
        "allowVolumeExpansion": volumes.grows,
    }
