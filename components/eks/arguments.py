"""From a cluster's settings to the arguments of EksGpuCluster."""

from __future__ import annotations

from collections.abc import Mapping

from components.arguments import given, same
from components.context import Context
from components.eks.eks_gpu_cluster import EksGpuClusterArgs
from fleet.providers.eks.cluster import EksCluster


def eks_gpu_cluster_args(
    name: str, settings: EksCluster, context: Context, quotas: Mapping[str, int] | None = None
) -> EksGpuClusterArgs:
    """The arguments for the cluster `name` of a stack. `quotas` are vCPUs by quota code."""
    network = settings.network
    args: EksGpuClusterArgs = same(settings, EksGpuClusterArgs) | given(
        cluster_name=context.cluster_name(name),
        vpc_cidr=network.cidr,
        nat_gateways=network.nat_gateways,
        vpc_id=network.vpc_id,
        private_subnet_ids=network.private_subnets,
        quotas=dict(quotas or {}),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    if settings.by_git:
        args["install_autoscaler"] = False
    return args
