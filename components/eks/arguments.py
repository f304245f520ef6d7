"""From a cluster's settings to the arguments of EksGpuCluster and GpuNodeGroup."""

from __future__ import annotations

from collections.abc import Mapping

from components.context import Context
from components.eks.eks_gpu_cluster import EksClusterSettings, EksGpuCluster
from components.eks.eks_gpu_cluster import Read as Cluster
from components.eks.existing_eks_cluster import ExistingEksCluster
from components.eks.gpu_node_group import NodeGroupSettings
from components.eks.gpu_node_group import Read as NodeGroup
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.nodes import EksPool
from fleet.settings.health import Health


def eks_gpu_cluster_args(name: str, settings: EksCluster, context: Context, quotas: Mapping[str, int] | None = None) -> Cluster:
    """The arguments for the cluster `name` of a stack. `quotas` are vCPUs by quota code."""
    network, by_git = settings.network, {"install_autoscaler": False} if settings.by_git else {}
    of_cluster = EksClusterSettings.model_construct(
        **settings.set_fields(EksCluster) | by_git,
        cluster_name=context.cluster_name(name),
        autoscale_by_priority=bool(settings.pool_orders),
        quotas=dict(quotas or {}),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    return Cluster(of_cluster, network.vpc_id, {**network.private_subnets})


def gpu_node_group_args(
    name: str, pool_name: str, settings: EksPools, context: Context, cluster: EksGpuCluster | ExistingEksCluster
) -> NodeGroup:
    """The arguments for a pool of the cluster `name` of a stack."""
    pool, health, image = settings.pools[pool_name], settings.health or Health(), settings.image_id(pool_name)
    of_pool = NodeGroupSettings.model_construct(
        **pool.set_fields(EksPool) | health.set_fields(NodeGroupSettings),
        kubernetes_version=settings.kubernetes_version,
        cluster_label=name,
        pool_name=pool_name,
        flavor=settings.flavor_of(pool_name) or None,
        image_id=image,
        stack_tag=context.stack,
        tags=context.owner_tags,
    )
    return NodeGroup(
        of_pool,
        cluster.cluster_name,
        cluster.node_role_arn,
        {zone: cluster.subnets[zone] for zone in settings.zones_of(pool)},
        cluster.security_group_id if pool.efa_interfaces else None,
        **(cluster.joining if image else {}),
    )
