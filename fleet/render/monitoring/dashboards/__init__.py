"""Grafana's dashboards of a cluster, and the ConfigMaps by which Grafana's sidecar finds them."""

import json
from typing import Any

from fleet.facts.manifest import Manifest, manifest
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.dashboards.boards import boards
from fleet.settings.cluster import Cluster

LABEL = {"grafana_dashboard": "1"}
"""Grafana's sidecar reads ConfigMaps with this label (kube-prometheus-stack 88.5.3, `grafana.sidecar.dashboards`)."""


def dashboards(fleet: Fleet, cluster_name: str) -> dict[str, dict[str, Any]]:
    """The dashboards of a cluster by uid, as data. There is none without monitoring."""
    cluster: Cluster = fleet.clusters[cluster_name]
    if cluster.monitoring is None:
        return {}
    from fleet.render.monitoring.dashboards import grafana  # noqa: PLC0415 - the SDK is slow to import, and a plan must be fast

    return {board.uid: grafana.dashboard_json(board, cluster_name) for board in boards(cluster, cluster.monitoring.alerts)}


def dashboard_objects(fleet: Fleet, cluster_name: str) -> tuple[Manifest, ...]:
    """A ConfigMap for each dashboard, in the namespace of Prometheus. There is none without monitoring."""
    monitoring = fleet.clusters[cluster_name].monitoring
    return tuple(
        manifest("v1", "ConfigMap", uid, monitoring.namespace, labels=LABEL)
        | {"data": {f"{uid}.json": json.dumps(dashboard, indent=1, sort_keys=True)}}
        for uid, dashboard in dashboards(fleet, cluster_name).items()
    )
