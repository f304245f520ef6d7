"""What a node needs of its control plane to join the cluster, if EKS adds nothing to its user data."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws


def joining(cluster: pulumi.Output[aws.eks.Cluster]) -> dict[str, pulumi.Output[str]]:
    """Address, certificate authority and range of services of a control plane, by argument of GpuNodeGroup."""
    return {
        "cluster_endpoint": cluster.apply(lambda plane: _part(plane, "endpoint")),
        "cluster_certificate_authority": cluster.apply(lambda plane: _part(plane, "certificate_authority", "data")),
        "service_cidr": cluster.apply(lambda plane: _part(plane, "kubernetes_network_config", "service_ipv4_cidr")),
    }


def _part(cluster: aws.eks.Cluster | None, key: str, inner: str = "") -> Any:
    """A value of the control plane. A simulated cloud may report none. Then it is empty."""
    value: Any = getattr(cluster, key, None)
    if value is None or not inner:
        return value or ""
    return value.apply(lambda part: getattr(part, inner, None) or "")
