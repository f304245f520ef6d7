"""What keeps a runner set's namespace apart from everything else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from fleet.charts.chart import Chart
from fleet.render.isolation import limit_range, resource_quota

_NAME = "runners"
"""Of all three objects: a namespace has one of each."""


def isolate(
    logical_name: str, chart: Chart, namespace: pulumi.Input[str], network_policy: Mapping[str, Any], *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """A NetworkPolicy of the given spec, a ResourceQuota and a LimitRange for the pods of a set; they stand before its release.

    The namespace itself holds its pods to a Pod Security Standard. Its default ServiceAccount stays as it is: no pod of ours has
    it, and it has no rights.
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
