"""From a cluster's settings to the arguments of EksGpuCluster and GpuNodeGroup."""

from __future__ import annotations

from collections.abc import Mapping

from components.arguments import given, same
from components.context import Context
from components.eks.eks_gpu_cluster import EksGpuCluster, EksGpuClusterArgs
from components.eks.existing_eks_cluster import ExistingEksCluster
from components.eks.gpu_node_group import GpuNodeGroupArgs
from fleet.providers.eks.cluster import EksCluster, EksPools


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
    if settings.pool_orders:
        args["autoscale_by_priority"] = True
    return args


def gpu_node_group_args(
    name: str, pool_name: str, settings: EksPools, context: Context, cluster: EksGpuCluster | ExistingEksCluster
) -> GpuNodeGroupArgs:
    """The arguments for a pool of the cluster `name` of a stack."""
    pool, health = settings.pools[pool_name], settings.health
    args: GpuNodeGroupArgs = same(pool, GpuNodeGroupArgs) | given(
        cluster_name=cluster.cluster_name,
        kubernetes_version=settings.kubernetes_version,
        node_role_arn=cluster.node_role_arn,
        subnet_ids={zone: cluster.subnets[zone] for zone in settings.zones_of(pool)},
        min_nodes=pool.nodes.min,
        max_nodes=pool.nodes.max,
        capacity_type=pool.capacity,
        # A mapping keeps the keys of nodeadm.
        node_config=pool.node_config.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
        if pool.node_config
        else None,
        security_group_id=cluster.security_group_id if pool.efa_interfaces else None,
        **({"ami_id": image, **cluster.joining} if (image := settings.image_id(pool_name)) else {}),
        **(same(health, GpuNodeGroupArgs) if health is not None else {}),
        cluster_label=name,
        pool_name=pool_name,
        flavor=settings.flavor_of(pool_name) or None,
        stack_tag=context.stack,
        tags=context.owner_tags,
    )
    return args
