"""What components of one OKE cluster share, and the component of a cluster that exists already."""

from typing import Any, cast

import pulumi
import pulumi_oci as oci

from components.component import Component, Resources
from components.context import Context
from components.kubernetes.provider import ExistingCluster, kubernetes_provider
from components.oci.governance import budget, home_provider
from components.oci.oke_gpu_cluster import OkeGpuCluster
from components.oci.rights import Statements, policy
from fleet.facts.record import Record
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.existing import ExistingOkeCluster as Settings


class ExistingOkeCluster(Component[Settings, Context]):
    """Declares a budget, and nothing of the cluster. The kubeconfig context of the settings leads to its Kubernetes API."""

    cluster_id: str
    """The cluster's OCID."""
    node_subnet_id: str
    """OCID of the subnet of the new nodes and their pods."""
    node_security_group_id: str
    """OCID of the security group of the new nodes and their pods."""
    kubeconfig: None = None
    """The settings name a kubeconfig context."""
    before_nodes: Resources = ()
    ready: Resources = ()
    """Nothing to wait for: the cluster exists."""

    def declare(self, name: str, settings: Settings, context: Context) -> dict[str, Any]:
        existing = settings.existing
        ExistingCluster(f"{name}-existing", self._child, existing.id, settings.provider)
        self.home_provider = home_provider(name, settings.home_region, settings.region, self._child)
        """The provider of the tenancy's home region; None if that is the cluster's region."""
        if settings.budget is not None and settings.tenancy is not None:
            target, opts = settings.budget.compartment or settings.compartment, self._below(provider=self.home_provider)
            called = context.cluster_name(name)
            budget(name, settings.budget, target, settings.tenancy, called=called, tags=context.tags, opts=opts)
        self.cluster_id, self.node_subnet_id = existing.id, existing.node_subnet
        self.node_security_group_id = existing.node_security_group
        access = {"kubeconfig": existing.kubeconfig, "context": existing.context}
        self.kubernetes_provider = kubernetes_provider(name, existing.id, **access, parent=self)
        group = self.node_security_group_id
        return {"clusterId": self.cluster_id, "nodeSubnetId": self.node_subnet_id, "nodeSecurityGroupId": group}


class InCluster(Record):
    """A cluster of a stack: its name, settings and component, the compartment of its subnets, and its OCI provider."""

    name: str
    settings: OkePools
    context: Context
    cluster: OkeGpuCluster | ExistingOkeCluster
    network: str
    cloud: oci.Provider

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """Options of a component in OCI."""
        return pulumi.ResourceOptions(providers=[self.cloud])

    @property
    def iam(self) -> pulumi.ProviderResource:
        """The provider of the tenancy's home region, which writes policies."""
        return cast("pulumi.ProviderResource", self.cluster.home_provider or self.cloud)

    @property
    def tags(self) -> dict[str, str]:
        """Free-form tags of every resource."""
        return self.context.tags

    @property
    def physical_name(self) -> str:
        """The cluster's name in OCI."""
        return self.context.cluster_name(self.name)

    def policy(self, name: str, says: Statements, compartment: str, why: str, *, parent: pulumi.Resource) -> oci.identity.Policy:
        """Statements for one compartment. `why` is the description."""
        return policy(name, says, compartment, why, self.tags, pulumi.ResourceOptions(parent=parent, provider=self.iam))


class NewCluster(InCluster):
    """A cluster that the program creates."""

    settings: OkeCluster
    cluster: OkeGpuCluster
