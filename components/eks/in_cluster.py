"""What components of one EKS cluster share."""

from collections.abc import Sequence

import pulumi

from components.context import Context
from components.eks.eks_gpu_cluster import EksGpuCluster
from components.eks.existing_eks_cluster import ExistingEksCluster
from components.eks.live_sizes import LiveSizes
from fleet.facts.record import Record
from fleet.providers.eks.cluster import EksPools
from fleet.providers.tags import fixed_tags


class InCluster(Record):
    """A cluster of a stack: its name, settings and component, the AWS providers of what belongs to it, and the sizes in AWS."""

    name: str
    settings: EksPools
    context: Context
    cluster: EksGpuCluster | ExistingEksCluster
    providers: Sequence[pulumi.ProviderResource]
    live: LiveSizes

    @property
    def opts(self) -> pulumi.ResourceOptions:
        """Options of a component in AWS."""
        return pulumi.ResourceOptions(providers=[*self.providers])

    @property
    def disk_tags(self) -> dict[str, str]:
        """Tags that never change."""
        return fixed_tags(self.context.stack, self.name)

    @property
    def physical_name(self) -> str:
        """The cluster's name in AWS."""
        return self.context.cluster_name(self.name)
