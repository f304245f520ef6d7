"""From a cluster's settings to the arguments of the component that makes its GPUs schedulable."""

from __future__ import annotations

from components.arguments import given, plain
from components.kubernetes.args import GitOpsArgs, GpuAccessArgs, TolerationArgs
from components.kubernetes.device_plugin_stack import DevicePluginStackArgs
from components.kubernetes.gpu_operator import GpuOperatorArgs
from fleet.facts.scheduling import Toleration
from fleet.providers.installed import engine_of, image_of, mig_naming, operator_of, tolerations_of
from fleet.settings.cluster import Cluster
from fleet.settings.gitops import GitOps
from fleet.settings.sharing import config_name


def gitops_args(git: GitOps | None) -> GitOpsArgs | None:
    """The repository of ArgoCD's Applications, without the settings of secrets."""
    args: GitOpsArgs | None = plain(git, "secrets") if git is not None else None
    return args


def device_plugin_args(cluster: Cluster, git: GitOps | None) -> DevicePluginStackArgs:
    """The arguments for all pools of a cluster."""
    image = image_of(cluster)
    args: DevicePluginStackArgs = given(
        tolerations=_tolerations(cluster),
        access=_access(cluster),
        runtime_handler=image.handler if image is not None else "",
        gitops=gitops_args(git),
    )
    return args


def gpu_operator_args(cluster: Cluster, git: GitOps | None) -> GpuOperatorArgs:
    """The arguments for all pools of a cluster. With the operator all pools have equivalent images and one setting of CDI."""
    image, pools = image_of(cluster), cluster.pools.values()
    if image is None:
        raise ValueError("an operator needs a pool")
    args: GpuOperatorArgs = given(
        install_driver=not image.driver,
        install_toolkit=not image.toolkit,
        driver_root=image.driver_root,
        cdi=any(pool.cdi for pool in pools),
        mig_strategy=mig_naming(cluster),
        tolerations=_tolerations(cluster),
        access=_access(cluster),
        controller_node_selector=dict(cluster.system_selector),
        gitops=gitops_args(git),
        counters=cluster.monitoring is not None,
        dcgm_engine=engine_of(cluster),
        **plain(operator_of(cluster)),
    )
    # False is not the default here.
    return args | {"device_plugin": not image.advertises}


def _tolerations(cluster: Cluster) -> list[TolerationArgs]:
    return [tolerance(each) for each in tolerations_of(cluster)]


def tolerance(toleration: Toleration) -> TolerationArgs:
    """A toleration as argument."""
    args: TolerationArgs = given(**toleration.manifest())
    return args


def _access(cluster: Cluster) -> list[GpuAccessArgs]:
    """One entry for each config that the pools' nodes name."""
    kinds = {name: pool for pool in cluster.pools.values() if (name := config_name(pool))}
    return [given(cdi=pool.cdi, sharing=plain(pool.sharing) if pool.sharing is not None else None) for pool in kinds.values()]
