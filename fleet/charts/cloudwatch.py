"""Values of CloudWatch's add-on for EKS: Container Insights, and the metrics of the DCGM exporter that the cluster has.

The add-on's own exporter stays off: it has a DCGM engine of its own, and no setting points it to the one of its node. Logs and
Application Signals stay off as well. Facts: aws-observability/helm-charts, amazon-cloudwatch-observability 6.4.0.
"""

from collections.abc import Mapping
from typing import Any

from fleet.charts.chart import Pod, fixed

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


def cloudwatch_values(selector: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of the add-on. `selector` is the node selector of the pods that run once."""
    once = {"nodeSelector": dict(selector)}
    values = fixed(CLOUDWATCH)
    agent, scraper = values["agents"]
    return values | {"kubeStateMetrics": once, "manager": once, "agents": [agent, scraper | once]}
