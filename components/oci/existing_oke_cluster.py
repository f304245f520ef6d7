"""An OKE cluster that exists already, with what GPU pools and charts need of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.existing_cluster import ExistingCluster, ExistingClusterArgs
from components.oci.governance import govern
from fleet.providers.oke.existing import ExistingOkeCluster as Settings


@dataclass(frozen=True, slots=True)
class ExistingOkeClusterArgs:
    """`settings` are those of the cluster. `called` is the name of the budget in OCI.

    `iam` is the provider of the tenancy's home region.
    """

    settings: Settings
    called: str
    tags: dict[str, str]
    iam: pulumi.ProviderResource


class ExistingOkeCluster(Component[ExistingOkeClusterArgs]):
    """Declares a budget, and nothing of the cluster. The kubeconfig context of the settings leads to its Kubernetes API."""

    cluster_id: str
    """The cluster's OCID."""
    node_subnet_id: str
    """The subnet of the new nodes and their pods."""
    workers_id: str
    """Security group of the new nodes and their pods."""
    before_nodes: tuple[pulumi.Resource, ...] = ()
    ready: tuple[pulumi.Resource, ...] = ()
    """Nothing to wait for: the cluster exists."""

    def declare(self, name: str, args: ExistingOkeClusterArgs) -> dict[str, Any]:
        settings, existing = args.settings, args.settings.existing
        ExistingCluster(
            f"{name}-existing", ExistingClusterArgs(existing.id, settings.provider), opts=pulumi.ResourceOptions(parent=self)
        )
        govern(name, settings, (), called=args.called, tags=args.tags, iam=args.iam, parent=self)
        self.cluster_id, self.node_subnet_id, self.workers_id = existing.id, existing.node_subnet, existing.node_security_group
        self.kubernetes_provider = kubernetes.Provider(
            f"{name}-kubernetes",
            context=existing.context,
            kubeconfig=existing.kubeconfig,
            # Without it any change of the kubeconfig would replace every object in the cluster.
            cluster_identifier=existing.id,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return {"clusterId": self.cluster_id, "nodeSubnetId": self.node_subnet_id, "workersId": self.workers_id}
