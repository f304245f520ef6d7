"""Builds one EKS cluster of a fleet: the provider's row names this module."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components.context import Context
from components.eks.eks_gpu_cluster import EksGpuCluster, EksGpuClusterArgs
from components.eks.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs
from components.kubernetes.arc_controller import ArcController, ArcControllerArgs
from components.kubernetes.arc_runner_set import ArcRunnerSet, ArcRunnerSetArgs
from components.kubernetes.device_plugin_stack import DevicePluginStack, DevicePluginStackArgs
from fleet import charts
from fleet.providers.eks import EksCluster
from fleet.settings import Fleet


def build(name: str, settings: EksCluster, fleet: Fleet, context: Context, private_key: pulumi.Output[str]) -> dict[str, object]:
    """The cluster `name` of the fleet with its pools and runner sets. Returns the stack outputs that belong to it."""
    cloud = [
        aws.Provider(
            f"{name}-aws",
            region=settings.region,
            default_tags=aws.ProviderDefaultTagsArgs(tags=context.tags),
        ),
        # Remote components run in this provider; default ones are off.
        eks.Provider(f"{name}-eks"),
    ]
    cluster = EksGpuCluster(
        name,
        EksGpuClusterArgs(name, context.cluster_name(name), settings, context.tags),
        opts=pulumi.ResourceOptions(providers=cloud),
    )
    for pool_name, pool in settings.pools.items():
        GpuNodeGroup(
            f"{name}-{pool_name}",
            GpuNodeGroupArgs(
                cluster=name,
                cluster_name=cluster.cluster_name,
                kubernetes_version=settings.kubernetes_version,
                node_role_arn=cluster.node_role_arn,
                subnet_ids=cluster.subnet_ids,
                pool_name=pool_name,
                pool=pool,
                tags=context.tags,
                ready=cluster.before_nodes,
            ),
            opts=pulumi.ResourceOptions(providers=cloud),
        )
    inside = pulumi.ResourceOptions(providers=[cluster.kubernetes_provider])
    DevicePluginStack(f"{name}-device-plugin", DevicePluginStackArgs(cluster.ready), opts=inside)
    controller = ArcController(f"{name}-arc", ArcControllerArgs(cluster.ready), opts=inside)
    sets = {
        set_name: ArcRunnerSet(
            f"{name}-{set_name}",
            ArcRunnerSetArgs(
                set_name=set_name,
                runner=runner,
                github=fleet.github,
                group=fleet.group_of(runner),
                private_key=private_key,
                releases={charts.CONTROLLER: controller.release},
                ready=cluster.ready,
            ),
            opts=inside,
        )
        for set_name, runner in settings.runners.items()
    }
    return {
        "clusterName": cluster.cluster_name,
        "kubeconfig": cluster.kubeconfig,
        "runsOn": {set_name: runner_set.runs_on for set_name, runner_set in sets.items()},
    }
