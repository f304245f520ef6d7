"""An EKS cluster that exists already, with what GPU pools and charts need of it."""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component, Resources, Text
from components.eks.autoscaler import EksAutoscaler
from components.eks.governance import govern
from components.eks.launch import joining, part_of
from components.kubernetes.provider import ExistingCluster, kubernetes_provider
from fleet.providers.eks.existing import ExistingEksCluster as Settings
from fleet.providers.eks.provider import autoscaler
from fleet.settings.existing import AUTOSCALER_CHART


class ExistingEksCluster(Component[Settings, str, Mapping[str, int]]):
    """Reads the cluster from AWS and does not change it. Declares the autoscaler if the cluster has none, budget and quotas.

    `settings` are those of the cluster. `stack` is the stack's name, `quotas` are vCPUs by quota code.
    """

    cluster_name: str
    """The cluster's name in AWS."""
    kubeconfig: pulumi.Output[str]
    """JSON kubeconfig. Its user signs in with the AWS CLI."""
    node_role_arn: str
    """ARN of the IAM role of the new nodes."""
    subnets: dict[str, Text]
    """The new nodes' private subnets by zone."""
    vpc_id: pulumi.Output[str]
    """Id of the VPC."""
    security_group_id: pulumi.Output[str]
    """Id of the security group that EKS gives to control plane and nodes."""
    before_nodes: Resources = ()
    ready: Resources = ()
    """Nothing to wait for: the cluster exists."""

    def declare(self, name: str, settings: Settings, stack: str, quotas: Mapping[str, int]) -> dict[str, Any]:
        existing = settings.existing
        ExistingCluster(f"{name}-existing", self._child, existing.name, settings.provider)
        govern(name, settings.budget, stack, quotas, parent=self)
        self.cluster_name, self.node_role_arn, self.subnets = existing.name, existing.node_role_arn, {**existing.subnets}
        cluster = aws.eks.Cluster.get(f"{name}-control-plane", existing.name, opts=self._child)
        self.vpc_id = part_of(cluster, "vpc_config", "vpc_id")
        self.security_group_id = part_of(cluster, "vpc_config", "cluster_security_group_id")
        self.joining = joining(pulumi.Output.from_input(cluster))
        """What nodes with an image of your own need to join, by argument of GpuNodeGroup."""
        access = pulumi.Output.all(self.joining["cluster_endpoint"], self.joining["cluster_certificate_authority"])
        self.kubeconfig = access.apply(lambda access: kubeconfig(existing.name, settings.region, *access))
        self.kubernetes_provider = kubernetes_provider(name, existing.name, kubeconfig=self.kubeconfig, parent=self)
        self.autoscaler: EksAutoscaler | None = None
        """The autoscaler; None if the cluster has one."""
        if AUTOSCALER_CHART not in existing.installed:
            chart = autoscaler(settings, existing.name, by_priority=bool(settings.pool_orders))
            opts = self._below(providers=[self.kubernetes_provider])
            self.autoscaler = EksAutoscaler(f"{name}-autoscaler", opts, existing.name, existing.name, chart, self.ready)
        return {"clusterName": self.cluster_name, "kubeconfig": self.kubeconfig, "nodeRoleArn": self.node_role_arn}


def kubeconfig(cluster: str, region: str, endpoint: str, authority: str) -> str:
    """A kubeconfig that signs in with the AWS CLI (EKS user guide, create a kubeconfig file manually)."""
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"]
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    clusters = [{"name": cluster, "cluster": {"server": endpoint, "certificate-authority-data": authority}}]
    contexts = [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}]
    parts = {"clusters": clusters, "users": [{"name": cluster, "user": {"exec": command}}], "contexts": contexts}
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": cluster, **parts})
