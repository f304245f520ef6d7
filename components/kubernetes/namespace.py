"""A namespace with its pod-security level."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts import Chart, Level
from fleet.scheduling import POD_SECURITY_LABEL


def namespace(
    logical_name: str, chart: Chart, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> kubernetes.core.v1.Namespace:
    """A chart's own namespace, whose pods the API server holds to a Pod Security Standard."""
    return namespace_of(logical_name, chart.namespace, chart.pod_security, parent=parent, depends_on=depends_on)


def namespace_of(
    logical_name: str, name: str, pod_security: Level, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> kubernetes.core.v1.Namespace:
    """A namespace of any name, whose pods the API server holds to a Pod Security Standard."""
    return kubernetes.core.v1.Namespace(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=name, labels={POD_SECURITY_LABEL: pod_security}),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on), delete_before_replace=True),
    )
