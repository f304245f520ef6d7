"""NVIDIA's device plugin, for node images that have driver and container toolkit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespace import namespace
from components.kubernetes.plugin_configs import config_map
from fleet.charts.chart import Chart
from fleet.charts.plugin_configs import PluginConfigs
from fleet.facts.scheduling import RUNTIME_CLASS


@dataclass(frozen=True, slots=True)
class DevicePluginStackArgs:
    """`chart` is the plugin's, `configs` its configs for single pools, if any.

    `ready` must exist before any chart: control plane and system nodes. `deliver` installs the chart. `handler` is a container
    runtime of the nodes that gets a RuntimeClass, if any.
    """

    chart: Chart
    configs: PluginConfigs | None
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm
    handler: str = ""


class DevicePluginStack(Component[DevicePluginStackArgs]):
    """The DaemonSet that advertises `nvidia.com/gpu`, in its own namespace."""

    namespace_name: pulumi.Output[str]
    """The DaemonSet's namespace."""

    def declare(self, name: str, args: DevicePluginStackArgs) -> dict[str, Any]:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        configs = config_map(f"{name}-configs", args.configs, home, parent=self)
        args.deliver(Delivery(f"{name}-chart", args.chart, self, [home, *configs, *args.ready]))
        if args.handler:
            kubernetes.node.v1.RuntimeClass(
                f"{name}-runtime-class",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=RUNTIME_CLASS),
                handler=args.handler,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.ready), delete_before_replace=True),
            )
        self.namespace_name = home.metadata.name
        return {"namespaceName": self.namespace_name}
