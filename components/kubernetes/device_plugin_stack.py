"""NVIDIA's device plugin in a cluster whose node images bring driver and container toolkit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.kubernetes.deliver import deliver
from components.kubernetes.namespace import namespace
from components.kubernetes.plugin_configs import config_map
from fleet import charts
from fleet.scheduling import Toleration


@dataclass(frozen=True, slots=True)
class DevicePluginStackArgs:
    """`tolerations` are those of the cluster's provider; `configs` is what the plugin is told of single pools, if anything.

    `ready` are the resources that stand before any chart: control plane and system nodes.
    """

    tolerations: Sequence[Toleration]
    configs: charts.PluginConfigs | None
    ready: Sequence[pulumi.Resource]


class DevicePluginStack(pulumi.ComponentResource):
    """The DaemonSet that advertises `nvidia.com/gpu`, in a namespace of its own."""

    namespace_name: pulumi.Output[str]
    """Where the DaemonSet runs."""

    def __init__(self, name: str, args: DevicePluginStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:DevicePluginStack", name, {}, opts)
        chart = charts.device_plugin(args.tolerations, args.configs)
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=args.ready)
        told = config_map(f"{name}-configs", args.configs, home, parent=self)
        deliver(f"{name}-chart", chart, parent=self, depends_on=[home, *told, *args.ready])
        self.namespace_name = home.metadata.name
        self.register_outputs({"namespaceName": self.namespace_name})
