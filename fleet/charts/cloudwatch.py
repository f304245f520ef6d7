"""Values of CloudWatch's add-on for EKS: Container Insights, and the metrics of the DCGM exporter that the cluster has.

The add-on's own exporter stays off: it has a DCGM engine of its own, and no setting points it to the one of its node. Logs and
Application Signals stay off as well. Facts: aws-observability/helm-charts, amazon-cloudwatch-observability 6.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.charts.chart import Pod
from fleet.charts.dcgm_exporter import DCGM_EXPORTER
from fleet.charts.dcgm_exporter import NAMESPACE as EXPORTER_NAMESPACE
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE

CLOUDWATCH = "amazon-cloudwatch-observability"
NAMESPACE = "amazon-cloudwatch"
AGENT = "cloudwatch-agent"
"""The agent of each node, and the service account of all agents."""
CLOUDWATCH_PODS = (
    Pod(AGENT, 250, 128, on="all nodes"),
    Pod("node-exporter", 50, 30, on="all nodes"),
    Pod("cloudwatch-agent-cluster-scraper", 250, 128),
    Pod("kube-state-metrics", 50, 64),
    Pod("controller-manager", 100, 64),
)
"""The pods of the add-on with these values. Those of all nodes tolerate every taint."""
_ANY_EXPORTER = f"{DCGM_EXPORTER};.*|.*;nvidia-{DCGM_EXPORTER}"
"""Labels of the pods of the exporter's own chart, and of the operator's exporter. A cluster has one of the two."""
_OFF = {"enabled": False}


def cloudwatch_values(selector: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of the add-on. `selector` is the node selector of the pods that run once."""
    once = {"nodeSelector": dict(selector)}
    return {
        "containerInsights": _OFF,
        "applicationSignals": _OFF,
        "containerLogs": _OFF,
        "dcgmExporter": _OFF,
        "neuronMonitor": _OFF,
        "otelContainerInsights": {"enabled": True, "logs": _OFF},
        "kubeStateMetrics": once,
        "manager": once,
        "agents": [
            {"name": AGENT, "otelConfig": _exporter_pipeline()},
            {"name": "cloudwatch-agent-cluster-scraper", "mode": "deployment", "config": "default", **once},
        ],
    }


def _exporter_pipeline() -> dict[str, Any]:
    """What each agent adds to the chart's configuration: it scrapes the exporter of its own node.

    The processors and the exporter are those of the chart's own pipelines. The chart adds them under these names.
    """
    chart = "cw_k8s_ci_v0"
    keep = [
        (["__meta_kubernetes_pod_label_app_kubernetes_io_name", "__meta_kubernetes_pod_label_app"], _ANY_EXPORTER),
        (["__meta_kubernetes_pod_node_name"], "${env:K8S_NODE_NAME}"),
        (["__meta_kubernetes_pod_container_port_name"], "metrics"),
    ]
    scrape = {
        "job_name": "gpu-ci-dcgm-exporter",
        "scrape_interval": "30s",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [EXPORTER_NAMESPACE, OPERATOR_NAMESPACE]}}],
        "relabel_configs": [{"source_labels": labels, "regex": regex, "action": "keep"} for labels, regex in keep],
    }
    processors = (
        "filter/{}_scrape_metadata",
        "transform/{}_set_unit",
        "metricstarttime/{}",
        "transform/{}_set_cluster_name",
        "transform/{}_set_node_name",
        "transform/{}_promote_node_name",
        "resourcedetection/{}",
        "transform/{}_set_cloud_resource_id",
        "k8sattributes/{}_node",
        "transform/{}_clear_schema_url",
        "awsattributelimit/{}",
        "batch/{}_metrics_dest",
    )
    pipeline = {
        "receivers": ["prometheus/gpu_ci_dcgm"],
        "processors": [each.format(chart) for each in processors],
        "exporters": [f"otlphttp/{chart}_metrics_dest"],
    }
    return {
        "receivers": {"prometheus/gpu_ci_dcgm": {"config": {"scrape_configs": [scrape]}}},
        "service": {"pipelines": {"metrics/gpu_ci_dcgm": pipeline}},
    }
