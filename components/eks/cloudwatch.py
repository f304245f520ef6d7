"""CloudWatch's add-on on an EKS cluster: Container Insights and the metrics of the cluster's DCGM exporter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.component import Component
from components.eks.iam import pod_identity
from fleet.charts.cloudwatch import AGENT, CLOUDWATCH, NAMESPACE, cloudwatch_values
from fleet.facts import versions
from fleet.providers.eks.cluster import EksCluster

_POLICY = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"


@dataclass(frozen=True, slots=True)
class CloudWatchArgs:
    """`ready` must exist before the add-on: system nodes and name resolution."""

    settings: EksCluster
    cluster_name: pulumi.Input[str]
    ready: Sequence[pulumi.Resource]


class CloudWatch(Component[CloudWatchArgs]):
    """The add-on `amazon-cloudwatch-observability`, whose agents have their own role instead of the nodes' rights."""

    def declare(self, name: str, args: CloudWatchArgs) -> None:
        identity = pod_identity(name, args.cluster_name, NAMESPACE, AGENT, _POLICY, parent=self)
        aws.eks.Addon(
            f"{name}-addon",
            cluster_name=args.cluster_name,
            addon_name=CLOUDWATCH,
            addon_version=versions.KUBERNETES[args.settings.kubernetes_version].cloudwatch,
            configuration_values=json.dumps(cloudwatch_values(args.settings.system_selector), sort_keys=True),
            resolve_conflicts_on_create="OVERWRITE",
            # Another value could start a second exporter on each GPU node.
            resolve_conflicts_on_update="OVERWRITE",
            opts=self._below(*identity, *args.ready),
        )
