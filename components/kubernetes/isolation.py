"""The isolation of a runner set's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.chart import Chart
from fleet.prove.namespace_limits import limit_range, resource_quota

_NAME = "runners"
"""The name of all three objects, because a namespace has one of each."""


def isolate(
    logical_name: str, chart: Chart, namespace: pulumi.Input[str], network_policy: Mapping[str, Any], *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """A NetworkPolicy with the given spec, a ResourceQuota and a LimitRange for a set's pods, all created before its release.

    The namespace itself enforces a Pod Security Standard. Its default ServiceAccount is unchanged: it has no rights and none of
    the runner pods uses it.
    """
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=_NAME, namespace=namespace)
    opts = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
    return [
        kubernetes.networking.v1.NetworkPolicy(
            f"{logical_name}-network", metadata=metadata, spec=dict(network_policy), opts=opts
        ),
        kubernetes.core.v1.ResourceQuota(f"{logical_name}-quota", metadata=metadata, spec=resource_quota(chart), opts=opts),
        kubernetes.core.v1.LimitRange(f"{logical_name}-limits", metadata=metadata, spec=limit_range(chart), opts=opts),
    ]
