"""Values of metrics-server. `kubectl top` and HorizontalPodAutoscalers read CPU and memory of pods and nodes from it.

Facts: kubernetes-sigs/metrics-server v0.9.0, charts/metrics-server 3.13.1.
"""

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, resources
from fleet.settings.cluster import Cluster

METRICS_SERVER = "metrics-server"
_POD = Pod(METRICS_SERVER, 100, 200)
"""The chart's own requests, which are enough for 100 nodes."""
_ANY_CERTIFICATE = "--kubelet-insecure-tls"
"""Accepts a certificate that the kubelet has signed itself. Certificates of the cluster's CA would need a controller that
approves each kubelet's request. Without an approval a kubelet has no certificate, and `kubectl logs` stops working. The risk: an
attacker on the cluster's own network who answers in place of a node gets the token of metrics-server. With it one can list pods
and nodes and read their metrics."""


def plain_chart(cluster: Cluster) -> Chart:
    """metrics-server on the system pool."""
    args = [] if cluster.SIGNED_KUBELETS else [_ANY_CERTIFICATE]
    node_selector = dict(cluster.system_selector)
    values = {"fullnameOverride": METRICS_SERVER, "args": args, "nodeSelector": node_selector, "resources": resources(_POD)}
    return Chart(METRICS_SERVER, METRICS_SERVER, KUBE_SYSTEM, values, (_POD,), f"infrastructure/controllers/{METRICS_SERVER}")
