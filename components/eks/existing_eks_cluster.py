"""An EKS cluster that exists already, with what GPU pools and charts need of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.eks.autoscaler import EksAutoscaler, EksAutoscalerArgs
from components.eks.governance import budget, quotas
from components.kubernetes.deliver import by_helm
from components.kubernetes.existing_cluster import ExistingCluster, ExistingClusterArgs
from fleet.providers.eks.cluster import EksPool
from fleet.providers.eks.existing import ExistingEksCluster as Settings
from fleet.providers.tags import STACK_TAG
from fleet.settings.existing import AUTOSCALER_CHART


@dataclass(frozen=True, slots=True)
class ExistingEksClusterArgs:
    """`settings` are those of the cluster. `quotas` are vCPUs by quota code."""

    settings: Settings
    tags: dict[str, str]
    quotas: Mapping[str, int] = field(default_factory=dict)


class ExistingEksCluster(Component[ExistingEksClusterArgs]):
    """Reads the cluster from AWS and does not change it. Declares the autoscaler if the cluster has none, budget and quotas."""

    cluster_name: str
    """The cluster's name in AWS."""
    kubeconfig: pulumi.Output[str]
    """JSON kubeconfig; its credentials come from the AWS CLI of whoever uses it."""
    node_role_arn: str
    """Of the role that the new nodes get."""
    before_nodes: tuple[pulumi.Resource, ...] = ()
    ready: tuple[pulumi.Resource, ...] = ()
    """Nothing to wait for: the cluster exists."""

    def declare(self, name: str, args: ExistingEksClusterArgs) -> dict[str, Any]:
        settings, existing = args.settings, args.settings.existing
        ExistingCluster(
            f"{name}-existing", ExistingClusterArgs(existing.name, settings.provider), opts=pulumi.ResourceOptions(parent=self)
        )
        if settings.budget is not None:
            budget(name, settings.budget, args.tags[STACK_TAG], parent=self)
        quotas(name, args.quotas, parent=self)
        self.cluster_name, self.node_role_arn, self._subnets = existing.name, existing.node_role_arn, existing.subnets
        cluster = aws.eks.Cluster.get(f"{name}-control-plane", existing.name, opts=pulumi.ResourceOptions(parent=self))
        self.kubeconfig = pulumi.Output.all(cluster.endpoint, cluster.certificate_authority).apply(
            lambda found: kubeconfig(existing.name, settings.region, *found)
        )
        self.kubernetes_provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it any change of the kubeconfig would replace every object in the cluster.
            cluster_identifier=existing.name,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.autoscaler: EksAutoscaler | None = None
        """The autoscaler; None if the cluster has one."""
        if AUTOSCALER_CHART not in existing.installed:
            self.autoscaler = EksAutoscaler(
                f"{name}-autoscaler",
                EksAutoscalerArgs(
                    existing.name,
                    existing.name,
                    settings.region,
                    settings.kubernetes_version,
                    self.ready,
                    by_helm,
                    settings.system_selector,
                ),
                opts=pulumi.ResourceOptions(parent=self, providers=[self.kubernetes_provider]),
            )
        return {"clusterName": self.cluster_name, "kubeconfig": self.kubeconfig, "nodeRoleArn": self.node_role_arn}

    def subnets_of(self, pool: EksPool) -> list[pulumi.Input[str]]:
        """The private subnets of a pool's nodes. A reservation has machines in one zone."""
        zones = (pool.reservation.zone,) if pool.reservation is not None else pool.zones
        return [self._subnets[zone] for zone in zones or self._subnets]


def kubeconfig(
    cluster: str, region: str, endpoint: str | None, authority: aws.eks.outputs.ClusterCertificateAuthority | None
) -> str:
    """A kubeconfig that signs in with the AWS CLI (EKS user guide, create a kubeconfig file manually).

    A simulated cloud may report no endpoint and no authority. Then they are empty.
    """
    data = authority.data if authority is not None else None
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"]
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    parts = {
        "clusters": [{"name": cluster, "cluster": {"server": endpoint or "", "certificate-authority-data": data or ""}}],
        "users": [{"name": cluster, "user": {"exec": command}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": cluster, **parts})
