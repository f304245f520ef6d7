"""Values of kube-prometheus-stack: Prometheus, its operator, Alertmanager, kube-state-metrics and node-exporter.

Facts: prometheus-community/helm-charts kube-prometheus-stack 88.5.3, kube-state-metrics 8.4.0, prometheus-node-exporter 4.56.1.
"""

import re

from fleet.charts.chart import Chart, Pod, fixed, pods_of, requests, resources
from fleet.facts import scheduling
from fleet.facts.quantities import memory_text
from fleet.settings.cluster import Cluster
from fleet.settings.monitoring import Monitoring

STACK = "kube-prometheus-stack"
PROMETHEUS_CLASS = "gpu-ci-prometheus"
"""Name of the storage class that the program creates for Prometheus."""
_PODS = pods_of(STACK)
_FILL = 0.85
"""Part of the volume that samples may fill. The rest is for the write-ahead log, and for blocks while Prometheus merges them."""


def kube_prometheus(cluster: Cluster, monitoring: Monitoring, name: str, *, receives: bool = False) -> Chart:
    """Prometheus for one cluster, whose physical name is the external label `cluster` of its samples and alerts.

    Prometheus selects every monitor and rule of the cluster, whatever their labels are. `receives`: whether it takes remote
    write.
    """
    storage_class = PROMETHEUS_CLASS if cluster.makes_class else monitoring.storage_class
    requested = {"requests": {"storage": memory_text(monitoring.storage)}}
    labels = [f"nodes=[{','.join(node_labels(cluster))}]", f"pods=[{scheduling.SCALE_SET_LABEL},{scheduling.RUNNER_POD_LABEL}]"]
    storage = {"class": storage_class or None, "storage": requested, "size": f"{int(monitoring.storage * _FILL)}MiB"}
    given = {"cluster": name, "labels": labels, "retention": f"{monitoring.retention}s", "receives": receives or None}
    sizes = {name: resources(pod) for name, pod in _PODS.items()} | {"node-exporter": requests(_PODS["node-exporter"])}
    values = fixed(STACK, selector=dict(cluster.system_selector), **storage, **given, **sizes)
    *pods, reloader = _PODS.values()
    running = tuple(_and(pod, reloader) if pod.name in ("prometheus", "alertmanager") else pod for pod in pods)
    # node-exporter uses the node's network and mounts its file system.
    return Chart(STACK, STACK, monitoring.namespace, values, running, "infrastructure/monitoring", pod_security="privileged")


def _and(pod: Pod, other: Pod) -> Pod:
    return Pod(pod.name, pod.cpu + other.cpu, pod.memory + other.memory)


def node_labels(cluster: Cluster) -> tuple[str, ...]:
    """The node labels that `kube_node_labels` must have: those of the program, and those by which described pools are known."""
    selectors = (key for name, pool in cluster.pools.items() for key in pool.node_selector(name))
    labels = (scheduling.CLUSTER_LABEL, scheduling.POOL_LABEL, scheduling.CAPACITY_LABEL, scheduling.INSTANCE_TYPE_LABEL)
    return tuple(dict.fromkeys((*labels, *selectors)))


def sanitized(name: str) -> str:
    """The name of a label or resource as kube-state-metrics writes it (internal/store/utils.go, SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
