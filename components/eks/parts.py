"""What several components of an EKS cluster declare alike: add-ons, and ports of a security group."""

from typing import Any

import pulumi_aws as aws

from components.component import Opts, Text


def declare_addon(
    name: str, cluster: Text, addon: str, version: str, opts: Opts, values: str | None = None, on_update: str = "PRESERVE"
) -> aws.eks.Addon:
    """An EKS add-on with JSON `values`. `on_update` says what an update does to what somebody changed in the cluster."""
    conflicts = {"resolve_conflicts_on_create": "OVERWRITE", "resolve_conflicts_on_update": on_update}
    pinned = {"addon_name": addon, "addon_version": version, "configuration_values": values}
    return aws.eks.Addon(name, cluster_name=cluster, **pinned, **conflicts, opts=opts)


def open_port(name: str, group: Text, port: int, why: str, opts: Opts, **source: Text) -> aws.vpc.SecurityGroupIngressRule:
    """A rule that lets `source` reach a TCP port of the security group's members."""
    opened: dict[str, Any] = {"ip_protocol": "tcp", "from_port": port, "to_port": port, "description": why}
    return aws.vpc.SecurityGroupIngressRule(name, security_group_id=group, **opened, **source, opts=opts)
