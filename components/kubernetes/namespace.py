"""A chart's namespace with its pod-security level."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.chart import Chart
from fleet.facts.scheduling import POD_SECURITY_LABEL


def namespace(
    logical_name: str, chart: Chart, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> kubernetes.core.v1.Namespace:
    """A chart's own namespace. The API server enforces a Pod Security Standard for its pods."""
    return kubernetes.core.v1.Namespace(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=chart.namespace, labels={POD_SECURITY_LABEL: chart.pod_security}),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on), delete_before_replace=True),
    )
