"""NVIDIA's device plugin, for node images that have driver and container toolkit."""

from typing import Any, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes

from components.arguments import settings
from components.component import PackagedComponent
from components.kubernetes.args import GitOpsArgs, GpuAccessArgs, TolerationArgs
from components.kubernetes.deliver import Delivery, delivery
from components.kubernetes.namespace import namespace
from components.kubernetes.plugin_configs import Access, config_map
from fleet.charts.device_plugin import device_plugin
from fleet.charts.plugin_configs import plugin_configs
from fleet.facts.scheduling import GPU_TOLERATION, RUNTIME_CLASS, Toleration
from fleet.settings.gitops import GitOps
from fleet.settings.model import Model, RuntimeHandler


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


class _Settings(Model):
    tolerations: tuple[Toleration, ...] = (GPU_TOLERATION,)
    access: tuple[Access, ...] = ()
    runtime_handler: RuntimeHandler | None = None
    gitops: GitOps | None = None


class DevicePluginStack(PackagedComponent[_Settings]):
    """The DaemonSet that advertises `nvidia.com/gpu`, in its own namespace."""

    namespace_name: pulumi.Output[str]
    """The DaemonSet's namespace."""
    config_names: pulumi.Output[list[str]]
    """Values of the label nvidia.com/device-plugin.config that select a config, without the default."""

    def __init__(self, name: str, args: DevicePluginStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> _Settings:
        return settings(_Settings, inputs)

    def declare(self, name: str, args: _Settings) -> dict[str, Any]:
        configs = plugin_configs(args.access, by_operator=False)
        chart = device_plugin(args.tolerations, configs)
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=self._after)
        files = config_map(f"{name}-configs", configs, home, parent=self)
        delivery(args.gitops)(Delivery(f"{name}-chart", chart, self, [home, *files, *self._after]))
        if args.runtime_handler:
            kubernetes.node.v1.RuntimeClass(
                f"{name}-runtime-class",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=RUNTIME_CLASS),
                handler=args.runtime_handler,
                opts=pulumi.ResourceOptions(parent=self, depends_on=self._after, delete_before_replace=True),
            )
        self.namespace_name = home.metadata.name
        self.config_names = pulumi.Output.from_input(configs.labels if configs else [])
        return {"namespaceName": self.namespace_name, "configNames": self.config_names}
