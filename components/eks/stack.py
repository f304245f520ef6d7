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
from components.eks.in_cluster import InCluster
from components.eks.runner_image import RunnerImage, RunnerImageArgs
from components.kubernetes.inside import Inside, install
from components.kubernetes.model_cache import Backing
from components.kubernetes.provider import from_registry
from components.outputs import Built, EksOutputs
from fleet.providers.eks import existing as settings_of_existing
from fleet.providers.eks.build_caches import role_arn
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.quotas import eks_quotas
from fleet.providers.fleet import Fleet


def build(name: str, settings: EksPools, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    here = _cluster(name, settings, fleet, context)
    cluster, backings = here.cluster, _of_new_cluster(here)
    groups = {
        pool_name: GpuNodeGroup.typed(
            f"{name}-{pool_name}",
            gpu_node_group_args(name, pool_name, settings, context, cluster),
            pulumi.ResourceOptions(providers=[*here.providers], depends_on=list(cluster.before_nodes)),
        )
        for pool_name in settings.pools
    }
    amis = {ami: GpuAmi(f"{name}-{ami}-ami", GpuAmiArgs(here, ami), opts=here.opts) for ami in settings.amis}
    inside = Inside(
        name=name,
        settings=settings,
        ready=(*cluster.ready, *_images(here, amis)),
        opts=from_registry(settings.mirror, [cluster.kubernetes_provider]),
        backings=backings,
        cloud=(cluster.autoscaler,) if cluster.autoscaler is not None else (),
        physical_name=here.physical_name,
        disk_tags=here.disk_tags,
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
        outputs["amiPipelines"] = {ami: pipeline.pipeline_arn for ami, pipeline in amis.items()}
    if (caches := settings.build_caches) is not None:
        BuildCache(f"{name}-build-caches", BuildCacheArgs(caches, cluster.vpc_id), here.opts)
        outputs["buildCaches"] = {bucket: role_arn(caches.account, bucket, "write") for bucket in caches.buckets}
    return Built(outputs, cluster.kubeconfig)


def _cluster(name: str, settings: EksPools, fleet: Fleet, context: Context) -> InCluster:
    """The cluster, new or existing, and its providers. Raises TypeError for settings that nothing here builds."""
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
    if isinstance(settings, EksCluster):
        # Remote components run in this provider; default ones are off.
        cloud.append(eks.Provider(f"{name}-eks"))
        args = eks_gpu_cluster_args(name, settings, context, quotas)
        cluster = EksGpuCluster.typed(name, args, from_registry(settings.mirror, cloud))
    elif isinstance(settings, settings_of_existing.ExistingEksCluster):
        existing = ExistingEksClusterArgs(settings, context.stack, quotas)
        cluster = ExistingEksCluster(name, existing, opts=pulumi.ResourceOptions(providers=cloud))
    else:
        raise TypeError(f"{name}: nothing here builds a cluster of {type(settings).__name__}; add it here")
    return InCluster(name, settings, context, cluster, cloud)


def _of_new_cluster(here: InCluster) -> Mapping[str, Backing]:
    """What only a new cluster has: the drivers of caches, and CloudWatch's add-on. Returns the storage of each cache."""
    settings, cluster, backings = here.settings, here.cluster, dict[str, Backing]()
    if not isinstance(settings, EksCluster) or not isinstance(cluster, EksGpuCluster):
        return backings
    if settings.drivers:
        backings = EksCaches(f"{here.name}-caches", EksCachesArgs(here, settings, cluster.ready), opts=here.opts).backings
    if settings.monitoring is not None and settings.monitoring.cloudwatch:
        CloudWatch(f"{here.name}-cloudwatch", CloudWatchArgs(settings, cluster.cluster_name, cluster.ready), opts=here.opts)
    return backings


def _images(here: InCluster, amis: Mapping[str, GpuAmi]) -> tuple[pulumi.Resource, ...]:
    """The registry of a new cluster, if its settings have one."""
    settings, cluster = here.settings, here.cluster
    if not isinstance(settings, EksCluster) or not isinstance(cluster, EksGpuCluster) or settings.registry is None:
        return ()
    readers = [arn for ami in amis.values() for arn in ami.reader_arns]
    args = RunnerImageArgs(here, settings.registry, cluster.node_role_name, readers)
    return (RunnerImage(f"{here.name}-registry", args, opts=here.opts),)
