"""Builds one EKS cluster of a fleet."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components.context import Context, PrivateKeys
from components.eks.build_cache import BuildCache
from components.eks.caches import EksCaches
from components.eks.cloudwatch import CloudWatch
from components.eks.eks_gpu_cluster import EksClusterSettings, EksGpuCluster, Read as ClusterArgs
from components.eks.existing_eks_cluster import ExistingEksCluster
from components.eks.governance import govern_pools
from components.eks.gpu_ami import GpuAmi
from components.eks.gpu_node_group import GpuNodeGroup, NodeGroupSettings, Read as GroupArgs
from components.eks.in_cluster import InCluster
from components.eks.leaving import leave
from components.eks.live_sizes import LiveSizes
from components.eks.runner_image import RunnerImage
from components.kubernetes.in_cluster import Backing, Inside
from components.kubernetes.inside import install
from components.kubernetes.provider import from_registry
from components.outputs import Built, EksOutputs
from fleet.providers.eks.bill import eks_quotas
from fleet.providers.eks.build_caches import role_arn
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.existing import ExistingEksCluster as ExistingSettings
from fleet.providers.eks.nodes import EksPool
from fleet.providers.fleet import Fleet
from fleet.settings.health import Health
from fleet.settings.namespaces import jobs_namespace, runner_namespace


def build(name: str, settings: EksCluster | ExistingSettings, fleet: Fleet, context: Context, private_keys: PrivateKeys) -> Built:
    """Declare the cluster `name` of the fleet with its pools and runner sets."""
    here = _cluster(name, settings, fleet, context)
    cluster, backings = here.cluster, dict[str, Backing]()
    if settings.drivers:
        backings = EksCaches(f"{name}-caches", here.opts, here).backings
    if settings.monitoring is not None and settings.monitoring.cloudwatch:
        CloudWatch(f"{name}-cloudwatch", here.opts, here)
    opts = pulumi.ResourceOptions(providers=[*here.providers], depends_on=list(cluster.before_nodes))
    groups = {pool: GpuNodeGroup.typed(f"{name}-{pool}", gpu_node_group_args(here, pool), opts) for pool in settings.pools}
    leaving = leave(here, groups)
    govern_pools(name, settings.pool_budgets, context.stack, parent=cluster)
    amis = {ami: GpuAmi(f"{name}-{ami}-ami", here.opts, here, ami) for ami in settings.amis}
    inside = Inside(
        name=name,
        settings=settings,
        ready=(*cluster.ready, *_images(here, amis), *_job_roles(here)),
        opts=from_registry(settings.mirror, [cluster.kubernetes_provider]),
        backings=backings,
        cloud=(cluster.autoscaler,) if cluster.autoscaler is not None else (),
        physical_name=here.physical_name,
        disk_tags=here.disk_tags,
        moves={pool: (group.generation, leaving.get(pool, ())) for pool, group in groups.items()},
        generations=context.generations,
    )
    outputs: EksOutputs = {
        "provider": "eks",
        "clusterName": cluster.cluster_name,
        "region": settings.region,
        "vpcId": cluster.vpc_id,
        "subnetIds": cluster.subnets,
        "nodeRoleArn": cluster.node_role_arn,
        "nodeGroups": {pool: [made.node_group_name for made in group.groups.values()] for pool, group in groups.items()},
        "runnerSets": install(inside, fleet, private_keys),
    }
    if amis:
        outputs["amiPipelines"] = {ami: pipeline.pipeline_arn for ami, pipeline in amis.items()}
    if (caches := settings.build_caches) is not None:
        BuildCache(f"{name}-build-caches", here.opts, here, caches)
        outputs["buildCaches"] = {bucket: role_arn(caches.account, bucket, "write") for bucket in caches.buckets}
    return Built(outputs, cluster.kubeconfig)


def _cluster(name: str, settings: EksCluster | ExistingSettings, fleet: Fleet, context: Context) -> InCluster:
    """The cluster, new or existing, and its providers."""
    # The account is in addresses of images and in ARNs of roles, so the credentials must belong to it.
    accounts, tags = [settings.account] if settings.account is not None else None, {"tags": context.tags}
    provider = aws.Provider(f"{name}-aws", region=settings.region, default_tags=tags, allowed_account_ids=accounts)
    cloud: list[pulumi.ProviderResource] = [provider]
    quotas = eks_quotas(settings, fleet.clusters_of(settings.provider)) if settings.declare_quotas else {}
    in_aws = settings.found.identity if settings.found else context.cluster_name(name)
    live = LiveSizes.read(in_aws, f"{name}-", context.stack, cloud[0])
    cluster: EksGpuCluster | ExistingEksCluster
    if isinstance(settings, EksCluster):
        # Remote components run in this provider; default ones are off.
        cloud.append(eks.Provider(f"{name}-eks"))
        args = eks_gpu_cluster_args(name, settings, context, quotas, live)
        cluster = EksGpuCluster.typed(name, args, from_registry(settings.mirror, cloud))
    else:
        cluster = ExistingEksCluster(name, pulumi.ResourceOptions(providers=cloud), settings, context.stack, quotas)
    return InCluster(name, settings, context, cluster, cloud, live)


def eks_gpu_cluster_args(
    name: str, settings: EksCluster, context: Context, quotas: Mapping[str, int], live: LiveSizes | None = None
) -> ClusterArgs:
    """The arguments for the cluster `name` of a stack. `quotas` are vCPUs by quota code, `live` the sizes in AWS."""
    network, by_git = settings.network, {"install_autoscaler": False} if settings.by_git else {}
    of_cluster = EksClusterSettings.model_construct(
        **settings.set_fields(EksCluster) | by_git,
        cluster_name=context.cluster_name(name),
        autoscale_by_priority=bool(settings.pool_orders),
        quotas=dict(quotas),
        tags=context.owner_tags,
        stack_tag=context.stack,
    )
    return ClusterArgs(of_cluster, network.vpc_id, {**network.private_subnets}, live)


def gpu_node_group_args(here: InCluster, pool_name: str) -> GroupArgs:
    """The arguments for a pool of a cluster of a stack."""
    settings, cluster = here.settings, here.cluster
    pool, health, image = settings.pools[pool_name], settings.health or Health(), settings.image_id(pool_name)
    of_pool = NodeGroupSettings.model_construct(
        **pool.set_fields(EksPool) | health.set_fields(NodeGroupSettings),
        kubernetes_version=settings.kubernetes_version,
        cluster_label=here.name,
        pool_name=pool_name,
        flavor=settings.flavor_of(pool_name) or None,
        image_id=image,
        stack_tag=here.context.stack,
        tags=here.context.owner_tags,
    )
    return GroupArgs(
        of_pool,
        cluster.cluster_name,
        cluster.node_role_arn,
        {zone: cluster.subnets[zone] for zone in settings.zones_of(pool)},
        cluster.security_group_id if pool.efa_interfaces else None,
        **(cluster.joining if image else {}),
        live=here.live,
        generations=here.context.generations,
    )


def _job_roles(here: InCluster) -> list[pulumi.Resource]:
    """The association of each runner class with a role. They come before the sets: a pod gets its credentials when it starts."""
    return [
        aws.eks.PodIdentityAssociation(
            f"{here.name}-{name}-role",
            cluster_name=here.cluster.cluster_name,
            namespace=jobs_namespace(name) if runner.in_containers else runner_namespace(name),
            service_account=runner.service_account,
            role_arn=runner.role,
            opts=here.opts,
        )
        for name, runner in here.settings.runners.items()
        if runner.role and runner.service_account
    ]


def _images(here: InCluster, amis: Mapping[str, GpuAmi]) -> tuple[pulumi.Resource, ...]:
    """The registry of a new cluster, if its settings have one."""
    settings, cluster = here.settings, here.cluster
    if not isinstance(settings, EksCluster) or not isinstance(cluster, EksGpuCluster) or settings.registry is None:
        return ()
    readers = [arn for ami in amis.values() for arn in ami.reader_arns]
    return (RunnerImage(f"{here.name}-registry", here.opts, here, settings.registry, cluster.node_role_name, readers),)
