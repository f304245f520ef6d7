"""What components of one OKE cluster share."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_oci as oci

from components.context import Context
from components.oci.existing_oke_cluster import ExistingOkeCluster
from components.oci.oke_gpu_cluster import OkeGpuCluster
from fleet.providers.oke.cluster import OkePools


@dataclass(frozen=True, slots=True)
class InCluster:
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
        home: pulumi.ProviderResource = self.cluster.home_provider or self.cloud
        return home

    @property
    def tags(self) -> dict[str, str]:
        """Free-form tags of every resource."""
        return self.context.tags

    @property
    def physical_name(self) -> str:
        """The cluster's name in OCI."""
        return self.context.cluster_name(self.name)
