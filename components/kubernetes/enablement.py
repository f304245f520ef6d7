"""The component of a chart that makes GPUs schedulable: its namespace, the device plugin's configs, and the chart."""

from __future__ import annotations

from typing import Any, TypeVar

import pulumi

from components.component import PackagedComponent
from components.kubernetes.deliver import Delivery, delivery
from components.kubernetes.namespaces import namespace
from components.kubernetes.plugin_configs import config_map
from fleet.charts.enablement import DevicePlugin, GpuOperatorSettings

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
