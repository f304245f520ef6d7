"""NVIDIA's device plugin in a cluster whose node images bring driver and container toolkit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.kubernetes.deliver import deliver
from components.kubernetes.namespace import namespace
from fleet import charts


@dataclass(frozen=True, slots=True)
class DevicePluginStackArgs:
    """`ready` are the resources that stand before any chart: control plane and system nodes."""

    ready: Sequence[pulumi.Resource]


class DevicePluginStack(pulumi.ComponentResource):
    """The DaemonSet that advertises `nvidia.com/gpu`, in a namespace of its own."""

    namespace_name: pulumi.Output[str]
    """Where the DaemonSet runs."""

    def __init__(self, name: str, args: DevicePluginStackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:DevicePluginStack", name, {}, opts)
        # The plugin mounts the kubelet's socket folder from the host, which only this level allows.
        home = namespace(f"{name}-namespace", charts.DEVICE_PLUGIN_NAMESPACE, "privileged", parent=self, depends_on=args.ready)
        deliver(f"{name}-chart", charts.device_plugin(), parent=self, depends_on=[home, *args.ready])
        self.namespace_name = home.metadata.name
        self.register_outputs({"namespaceName": self.namespace_name})
