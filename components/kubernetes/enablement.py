"""The component of a chart that makes GPUs schedulable: its namespace, the device plugin's configs, and the chart."""

from __future__ import annotations

from typing import Any, TypeVar

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import PackagedComponent
from components.kubernetes.deliver import Delivery, delivery
from components.kubernetes.namespaces import namespace
from fleet.charts.enablement import DevicePlugin, GpuOperatorSettings
from fleet.charts.plugin_configs import PluginConfigs


def config_map(
    logical_name: str, configs: PluginConfigs | None, home: kubernetes.core.v1.Namespace, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """The ConfigMap, if there are configs. New content has a new name, so the old one is deleted only after it exists."""
    if configs is None:
        return []
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=configs.name, namespace=home.metadata.name)
    opts = pulumi.ResourceOptions(parent=parent)
    return [kubernetes.core.v1.ConfigMap(logical_name, metadata=metadata, data=configs.files, opts=opts)]


Settings = TypeVar("Settings", DevicePlugin, GpuOperatorSettings)


class Enablement(PackagedComponent[Settings]):
    """A chart that makes GPUs schedulable, in its own namespace."""

    VALIDATE = True
    """Whether Helm checks the chart's manifests against the kinds that the cluster has now."""

    def declare(self, name: str, args: Settings) -> dict[str, Any]:
        chart, configs = args.chart, args.configs
        self.home = namespace(f"{name}-namespace", chart, parent=self, depends_on=self._after)
        files: list[pulumi.Resource] = config_map(f"{name}-configs", configs, self.home, parent=self)
        needed = [self.home, *files, *self._after]
        delivery(args.gitops)(Delivery(f"{name}-chart", chart, self, needed, validate=self.VALIDATE))
        self.namespace_name: pulumi.Output[str] = self.home.metadata.name
        self.config_names: pulumi.Output[list[str]] = pulumi.Output.from_input(configs.labels if configs else [])
        return {"namespaceName": self.namespace_name, "configNames": self.config_names}
