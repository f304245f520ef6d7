"""Values of CloudWatch's add-on for EKS: Container Insights, and the metrics of the DCGM exporter that the cluster has.

The add-on's own exporter stays off: it has a DCGM engine of its own, and no setting points it to the one of its node. Logs and
Application Signals stay off as well. Facts: aws-observability/helm-charts, amazon-cloudwatch-observability 6.4.0.
"""

from collections.abc import Mapping
from typing import Any

from fleet.charts.chart import fixed, pods_of

CLOUDWATCH = "amazon-cloudwatch-observability"
NAMESPACE = "amazon-cloudwatch"
AGENT = "cloudwatch-agent"
"""The agent of each node, and the service account of all agents."""
CLOUDWATCH_PODS = tuple(pods_of(CLOUDWATCH).values())


def cloudwatch_values(selector: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of the add-on. `selector` is the node selector of the pods that run once."""
    return fixed(CLOUDWATCH, selector=dict(selector))
