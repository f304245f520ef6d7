"""Builds one EKS cluster of a fleet."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components.context import Context
from components.eks.arguments import eks_gpu_cluster_args, gpu_node_group_args
from components.eks.build_cache import BuildCache, BuildCacheArgs
from components.eks.caches import EksCaches, EksCachesArgs
from components.eks.cloudwatch import CloudWatch, CloudWatchArgs
from components.eks.eks_gpu_cluster import EksGpuCluster
from components.eks.existing_eks_cluster import ExistingEksCluster, ExistingEksClusterArgs
from components.eks.gpu_ami import GpuAmi, GpuAmiArgs
from components.eks.gpu_node_group import GpuNodeGroup
from components.eks.runner_image import RunnerImage, RunnerImageArgs
from components.kubernetes.inside import Inside, install
from components.kubernetes.mirror import from_registry
from components.kubernetes.model_cache import Backing
from components.outputs import Built, EksOutputs
from fleet.providers.eks import existing as settings_of_existing
from fleet.providers.eks.build_caches import role_arn
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.quotas import eks_quotas
from fleet.providers.fleet import Fleet
from fleet.providers.tags import fixed_tags


def build(name: str, settings: EksPools, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    caches = settings.build_caches
    cloud: list[pulumi.ProviderResource] = [
        aws.Provider(
            f"{name}-aws",
            region=settings.region,
            default_tags=aws.ProviderDefaultTagsArgs(tags=context.tags),
            # The account is in addresses of images and in ARNs of roles, so the credentials must belong to it.
            allowed_account_ids=[settings.account] if settings.account is not None else None,
        ),
    ]
    quotas = eks_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else {}
    cluster: EksGpuCluster | ExistingEksCluster
    backings: Mapping[str, Backing] = {}
    if isinstance(settings, EksCluster):
        # Remote components run in this provider; default ones are off.
        cloud.append(eks.Provider(f"{name}-eks"))
        args = eks_gpu_cluster_args(name, settings, context, quotas)
        cluster = EksGpuCluster.typed(name, args, from_registry(settings.mirror, cloud))
        if settings.drivers:
            backings = _backings(name, settings, context, cluster, cloud)
        if settings.monitoring is not None and settings.monitoring.cloudwatch:
            wanted = CloudWatchArgs(settings, cluster.cluster_name, cluster.ready)
            CloudWatch(f"{name}-cloudwatch", wanted, opts=pulumi.ResourceOptions(providers=cloud))
    elif isinstance(settings, settings_of_existing.ExistingEksCluster):
        existing = ExistingEksClusterArgs(settings, context.stack, quotas)
        cluster = ExistingEksCluster(name, existing, opts=pulumi.ResourceOptions(providers=cloud))
    else:
        raise TypeError(f"{name}: nothing here builds a cluster of {type(settings).__name__}; add it here")
    groups = {
        pool_name: GpuNodeGroup.typed(
            f"{name}-{pool_name}",
            gpu_node_group_args(name, pool_name, settings, context, cluster),
            pulumi.ResourceOptions(providers=cloud, depends_on=list(cluster.before_nodes)),
        )
        for pool_name in settings.pools
    }
    amis = {
        ami: GpuAmi(
            f"{name}-{ami}-ami",
            GpuAmiArgs(
                settings=held,
                kubernetes_version=settings.kubernetes_version,
                physical_name=f"{context.cluster_name(name)}-{ami}",
                region=settings.region,
                vpc_id=cluster.vpc_id,
                subnet_id=next(iter(cluster.subnets.values())),
                tags=context.tags,
            ),
            opts=pulumi.ResourceOptions(providers=cloud),
        )
        for ami, held in settings.amis.items()
    }
    images: tuple[pulumi.Resource, ...] = ()
    if isinstance(settings, EksCluster) and isinstance(cluster, EksGpuCluster) and settings.registry is not None:
        registry = RunnerImageArgs(
            registry=settings.registry,
            region=settings.region,
            node_role_arn=cluster.node_role_arn,
            node_role_name=cluster.node_role_name,
            tags=fixed_tags(context.stack, name),
            readers=[arn for ami in amis.values() for arn in ami.reader_arns],
            protect=settings.protect,
        )
        images = (RunnerImage(f"{name}-registry", registry, opts=pulumi.ResourceOptions(providers=cloud)),)
    inside = Inside(
        name=name,
        settings=settings,
        ready=(*cluster.ready, *images),
        opts=from_registry(settings.mirror, [cluster.kubernetes_provider]),
        backings=backings,
        cloud=(cluster.autoscaler,) if cluster.autoscaler is not None else (),
        physical_name=context.cluster_name(name),
        disk_tags=fixed_tags(context.stack, name),
    )
    outputs: EksOutputs = {
        "provider": "eks",
        "clusterName": cluster.cluster_name,
        "region": settings.region,
        "vpcId": cluster.vpc_id,
        "subnetIds": cluster.subnets,
        "nodeRoleArn": cluster.node_role_arn,
        "nodeGroups": {pool_name: list(group.names.values()) for pool_name, group in groups.items()},
        "runnerSets": install(inside, fleet, private_key),
    }
    if amis:
        outputs["amiPipelines"] = {ami: made.pipeline_arn for ami, made in amis.items()}
    if caches is not None:
        opts = pulumi.ResourceOptions(providers=cloud)
        BuildCache(f"{name}-build-caches", BuildCacheArgs(caches, cluster.vpc_id), opts)
        outputs["buildCaches"] = {bucket: role_arn(caches.account, bucket, "write") for bucket in caches.buckets}
    return Built(outputs, cluster.kubeconfig)


def _backings(
    name: str, settings: EksCluster, context: Context, cluster: EksGpuCluster, cloud: list[pulumi.ProviderResource]
) -> dict[str, Backing]:
    args = EksCachesArgs(
        settings=settings,
        cluster_name=cluster.cluster_name,
        vpc_id=cluster.vpc_id,
        subnets=cluster.subnets,
        security_group_id=cluster.security_group_id,
        volume_tags=fixed_tags(context.stack, name),
        ready=cluster.ready,
    )
    return EksCaches(f"{name}-caches", args, opts=pulumi.ResourceOptions(providers=cloud)).backings
