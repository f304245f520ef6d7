"""What Prometheus and Grafana of a cluster read: monitors, NetworkPolicies that admit Prometheus, rules and dashboards.

PodMonitors and ServiceMonitors say what Prometheus scrapes. They are in Prometheus's namespace and name the namespace of their
targets. Each scrapes every 15 s, as often as the DCGM exporter reads the GPUs. Labels and ports are those of the charts at their
pinned versions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fleet.charts.arc import CONTROLLER, METRICS_PORT, controller_of
from fleet.charts.chart import KUBE_SYSTEM
from fleet.charts.cluster_autoscaler import AUTOSCALER
from fleet.charts.dcgm_exporter import DCGM_EXPORTER, NAMESPACE as EXPORTER_NAMESPACE
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE, OPERATOR
from fleet.charts.kube_prometheus import PROMETHEUS_CLASS, sanitized
from fleet.charts.kueue import KUEUE, NAMESPACE as KUEUE_NAMESPACE
from fleet.facts.manifest import Manifest, manifest
from fleet.facts.record import Record
from fleet.facts.scheduling import REGION, SCALE_SET_SPACE
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed
from fleet.render.isolation import admits, in_namespace, wall
from fleet.render.monitoring.dashboards import dashboard_objects
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.settings.cluster import Cluster
from fleet.settings.monitoring import Monitoring
from fleet.settings.namespaces import runner_namespace

API = "monitoring.coreos.com/v1"
INTERVAL = "15s"
_EXPORTER_PORT = 9400
"""The default of both charts that have the exporter."""
_COMPONENT, _NAME = "app.kubernetes.io/component", "app.kubernetes.io/name"


class Target(Record):
    """What one monitor scrapes: the port `port` of pods, or of Services, with these labels in one namespace.

    `relabel` are relabelings. `closed` is the number of that port if the pods serve nothing else: then a NetworkPolicy
    admits only Prometheus. `secure`: whether the port is HTTPS and asks for a token.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    port: str = "metrics"
    service: bool = False
    relabel: Sequence[Manifest] = ()
    closed: int = 0
    secure: bool = False


def _copied(pod_label: str, label: str) -> Manifest:
    """A relabeling that copies discovery's label `pod_label` to every series."""
    return {"sourceLabels": [f"__meta_kubernetes_pod_{pod_label}"], "targetLabel": label}


def targets(cluster: Cluster, charts: Collection[str]) -> Iterator[Target]:
    """What the program adds to what kube-prometheus-stack scrapes by itself. `charts` are the names of the cluster's releases."""
    if cluster.runners:
        arc = controller_of(cluster).namespace
        # ARC's metrics have no label with the runner set. Generations of one set have names of their own in one namespace.
        scale_set = _copied(f"label_{sanitized(SCALE_SET_SPACE)}", "scale_set") | {"regex": runner_namespace("(.+)")}
        listeners = {_COMPONENT: "runner-scale-set-listener"}
        # Who may reach the controller of an existing cluster is the owner's choice.
        closed = METRICS_PORT if CONTROLLER in charts else 0
        yield Target("arc-listeners", arc, listeners, relabel=(scale_set,), closed=closed)
        controller = {_COMPONENT: "controller-manager", "app.kubernetes.io/part-of": "gha-rs-controller"}
        yield Target("arc-controller", arc, controller, closed=closed)
    # A cluster has one of the two.
    node = (_copied("node_name", "kubernetes_node"),)
    if OPERATOR in charts:
        labels = {"app": "nvidia-dcgm-exporter"}
        yield Target(DCGM_EXPORTER, OPERATOR_NAMESPACE, labels, relabel=node, closed=_EXPORTER_PORT)
    if DCGM_EXPORTER in charts:
        labels = {_NAME: DCGM_EXPORTER}
        yield Target(DCGM_EXPORTER, EXPORTER_NAMESPACE, labels, relabel=node, closed=_EXPORTER_PORT)
    if cluster.queues is not None:
        service = {_NAME: KUEUE, _COMPONENT: "metrics-service"}
        yield Target("kueue", KUEUE_NAMESPACE, service, port="https", service=True, secure=True)
    if cluster.gitops is not None:
        yield Target("argo-cd", cluster.gitops.namespace, {_NAME: "argocd-application-controller"})
    if AUTOSCALER in charts:
        yield Target(AUTOSCALER, KUBE_SYSTEM, {"app.kubernetes.io/instance": AUTOSCALER}, port="http", service=True)


def monitor(target: Target, monitoring: Monitoring) -> Manifest:
    """The PodMonitor or ServiceMonitor of a target."""
    kind, endpoints = ("ServiceMonitor", "endpoints") if target.service else ("PodMonitor", "podMetricsEndpoints")
    endpoint: dict[str, Any] = {"port": target.port, "path": "/metrics", "interval": INTERVAL, "scrapeTimeout": "10s"}
    if target.relabel:
        endpoint["relabelings"] = list(target.relabel)
    if target.secure:
        # Kueue makes its certificate itself, so no authority vouches for it. It asks the API server about the token.
        file = "/var/run/secrets/kubernetes.io/serviceaccount/token"
        endpoint |= {"scheme": "https", "bearerTokenFile": file, "tlsConfig": {"insecureSkipVerify": True}}
    selected = {"matchLabels": dict(target.labels)}
    spec = {"namespaceSelector": {"matchNames": [target.namespace]}, "selector": selected, endpoints: [endpoint]}
    return manifest(API, kind, f"gpu-ci-{target.name}", monitoring.namespace, spec, labels=dict(monitoring.labels))


def admission(target: Target, monitoring: Monitoring) -> Manifest:
    """The NetworkPolicy by which only Prometheus reaches pods that serve nothing but metrics."""
    spec = admits(target.labels, [in_namespace(monitoring.namespace)], target.closed)
    return wall(f"gpu-ci-{target.name}-metrics", target.namespace, spec)


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
    monitoring, scraped = cluster.monitoring, tuple(targets(cluster, releases))
    rules = manifest(API, "PrometheusRule", "gpu-ci", monitoring.namespace, {"groups": groups}, labels=dict(monitoring.labels))
    walls = (admission(target, monitoring) for target in scraped if target.closed)
    return [*(monitor(target, monitoring) for target in scraped), *walls, rules, *dashboard_objects(fleet, cluster_name)]


def storage_class(cluster: Cluster, tags: Mapping[str, str]) -> Manifest:
    """The storage class of Prometheus's volume, where the program creates it. A deleted claim deletes its volume."""
    volumes = cluster.disk_class(tags)
    document = manifest("storage.k8s.io/v1", "StorageClass", PROMETHEUS_CLASS, annotations={REGION: cluster.region})
    document |= {"provisioner": volumes.provisioner, "parameters": dict(volumes.parameters), "reclaimPolicy": "Delete"}
    return document | {"volumeBindingMode": volumes.binding, "allowVolumeExpansion": volumes.grows}
