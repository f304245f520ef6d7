"""NVIDIA's device plugin, for node images that have driver and container toolkit."""

from typing import Any, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes

from components.arguments import settings
from components.kubernetes.args import GitOpsArgs, GpuAccessArgs, TolerationArgs
from components.kubernetes.enablement import Enablement
from fleet.charts.enablement import DevicePlugin
from fleet.facts.scheduling import RUNTIME_CLASS


class DevicePluginStackArgs(TypedDict, total=False):
    """Arguments of DevicePluginStack. The component's providers must have the cluster's Kubernetes provider."""

    tolerations: list[TolerationArgs]
    """Tolerations of the DaemonSet. Default: nvidia.com/gpu, Exists, NoSchedule."""
    access: list[GpuAccessArgs]
    """How the containers of each kind of node get their GPUs, if some kinds share GPUs or use the Container Device Interface. A
    node names its kind by the label nvidia.com/device-plugin.config, with a name of `configNames`."""
    runtime_handler: str
    """Container runtime of the nodes that gets the RuntimeClass nvidia. Default: no RuntimeClass."""
    gitops: GitOpsArgs
    """Declare an ArgoCD Application instead of a Helm release."""


class DevicePluginStack(Enablement[DevicePlugin]):
    """The DaemonSet that advertises `nvidia.com/gpu`, in its own namespace."""

    namespace_name: pulumi.Output[str]
    """The DaemonSet's namespace."""
    config_names: pulumi.Output[list[str]]
    """Values of the label nvidia.com/device-plugin.config that select a config, without the default."""

    def __init__(self, name: str, args: DevicePluginStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> DevicePlugin:
        return settings(DevicePlugin, inputs)

    def declare(self, name: str, args: DevicePlugin) -> dict[str, Any]:
        outputs = super().declare(name, args)
        if args.runtime_handler:
            kubernetes.node.v1.RuntimeClass(
                f"{name}-runtime-class",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=RUNTIME_CLASS),
                handler=args.runtime_handler,
                opts=self._below(*self._after, delete_before_replace=True),
            )
        return outputs
