"""Values of kube-prometheus-stack: Prometheus, its operator, Alertmanager, kube-state-metrics and node-exporter.

Facts: prometheus-community/helm-charts kube-prometheus-stack 88.5.3, kube-state-metrics 8.4.0, prometheus-node-exporter 4.56.1.
"""

import re
from typing import Any

from fleet.charts.chart import Chart, Pod, fixed, requests, resources
from fleet.facts import scheduling
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.monitoring import Monitoring

STACK = "kube-prometheus-stack"
PROMETHEUS_CLASS = "gpu-ci-prometheus"
"""Name of the storage class that the program creates for Prometheus."""
_RELOADER = Pod("config-reloader", 10, 32)
_PROMETHEUS = Pod("prometheus", 500, 1536)
_ALERTMANAGER = Pod("alertmanager", 10, 64)
_OPERATOR = Pod("prometheus-operator", 50, 128)
_STATE_METRICS = Pod("kube-state-metrics", 20, 128)
_NODE_EXPORTER = Pod("node-exporter", 10, 32, on="all nodes")
"""Not measured: requests for some tens of nodes and runner sets. Measure yours with `kubectl top pods -n monitoring`."""
_FILL = 0.85
"""Part of the volume that samples may fill. The rest is for the write-ahead log, and for blocks while Prometheus merges them."""


def kube_prometheus(cluster: Cluster, monitoring: Monitoring, name: str, *, receives: bool = False) -> Chart:
    """Prometheus for one cluster, whose physical name is the external label `cluster` of its samples and alerts.

    Prometheus selects every monitor and rule of the cluster, whatever their labels are. `receives`: whether it takes remote
    write.
    """
    storage_class = PROMETHEUS_CLASS if cluster.makes_class else monitoring.storage_class
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_text(monitoring.storage)}},
    } | ({"storageClassName": storage_class} if storage_class else {})
    values, placed = fixed(STACK), {"nodeSelector": dict(cluster.system_selector)}
    values["prometheus"]["prometheusSpec"] |= {
        "externalLabels": {"cluster": name},
        "retention": f"{monitoring.retention}s",
        "retentionSize": f"{int(monitoring.storage * _FILL)}MiB",
        "storageSpec": {"volumeClaimTemplate": {"spec": claim}},
        "resources": resources(_PROMETHEUS),
        **placed,
        **({"enableRemoteWriteReceiver": True} if receives else {}),
    }
    values["alertmanager"]["alertmanagerSpec"] |= {"resources": resources(_ALERTMANAGER)} | placed
    reloader = {"prometheusConfigReloader": {"resources": resources(_RELOADER)}}
    values["prometheusOperator"] |= {"resources": resources(_OPERATOR)} | placed | reloader
    labels = [f"nodes=[{','.join(node_labels(cluster))}]", f"pods=[{scheduling.SCALE_SET_LABEL},{scheduling.RUNNER_POD_LABEL}]"]
    values["kube-state-metrics"] |= {"resources": resources(_STATE_METRICS), "metricLabelsAllowlist": labels} | placed
    values["prometheus-node-exporter"]["resources"] = requests(_NODE_EXPORTER)
    pods = (_with_reloader(_PROMETHEUS), _with_reloader(_ALERTMANAGER), _OPERATOR, _STATE_METRICS, _NODE_EXPORTER)
    # node-exporter uses the node's network and mounts its file system.
    return Chart(STACK, STACK, monitoring.namespace, values, pods, "infrastructure/monitoring", pod_security="privileged")


def _with_reloader(pod: Pod) -> Pod:
    """The pod with the container that reloads its configuration."""
    return Pod(pod.name, pod.cpu + _RELOADER.cpu, pod.memory + _RELOADER.memory)


def node_labels(cluster: Cluster) -> tuple[str, ...]:
    """The node labels that `kube_node_labels` must have: those of the program, and those by which described pools are known."""
    selectors = (key for name, pool in cluster.pools.items() for key in pool.node_selector(name))
    labels = (scheduling.CLUSTER_LABEL, scheduling.POOL_LABEL, scheduling.CAPACITY_LABEL, scheduling.INSTANCE_TYPE_LABEL)
    return tuple(dict.fromkeys((*labels, *selectors)))


def sanitized(name: str) -> str:
    """The name of a label or resource as kube-state-metrics writes it (internal/store/utils.go, SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
