"""Values of metrics-server, which `kubectl top` and HorizontalPodAutoscalers ask for CPU and memory of pods and nodes.

Facts: kubernetes-sigs/metrics-server v0.9.0, charts/metrics-server 3.13.1.
"""

from __future__ import annotations

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, published, resources
from fleet.facts import versions
from fleet.facts.scheduling import SYSTEM_POOL, pool_selector
from fleet.settings.cluster import Cluster

METRICS_SERVER = "metrics-server"
_POD = Pod(METRICS_SERVER, 100, 200)
"""The chart's own requests, which are enough for 100 nodes."""
_ANY_CERTIFICATE = "--kubelet-insecure-tls"
"""Accepts a certificate that the kubelet has signed itself. Signed ones would need a controller that approves each kubelet's
request: without it a kubelet has no certificate, and `kubectl logs` stops working. The risk: whoever answers in a node's place on
the cluster's own network gets the token of metrics-server, which may list pods and nodes and read their metrics."""


def plain_chart(cluster: Cluster) -> Chart:
    """metrics-server on the system pool."""
    repository, _, tag = versions.CHARTS[METRICS_SERVER].image.partition(":")
    return published(
        METRICS_SERVER,
        METRICS_SERVER,
        KUBE_SYSTEM,
        {
            "fullnameOverride": METRICS_SERVER,
            "image": {"repository": repository, "tag": tag},
            "args": [] if cluster.SIGNED_KUBELETS else [_ANY_CERTIFICATE],
            "nodeSelector": pool_selector(SYSTEM_POOL),
            "resources": resources(_POD),
        },
        [_POD],
    )
