"""NVIDIA's GPU operator: driver and toolkit where the node image has none, plugin, feature discovery and DCGM exporter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.kubernetes.deliver import Deliver, by_helm
from components.kubernetes.namespace import namespace
from components.kubernetes.plugin_configs import config_map
from fleet.charts.chart import Chart
from fleet.charts.plugin_configs import PluginConfigs


@dataclass(frozen=True, slots=True)
class GpuOperatorArgs:
    """`chart` is the operator's, `configs` are the device plugin's configs for single pools, if any.

    `ready` must exist before any chart: control plane and system nodes. `deliver` installs the chart.
    """

    chart: Chart
    configs: PluginConfigs | None
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class GpuOperator(Component[GpuOperatorArgs]):
    """The operator in its own namespace, in which the secrets that its settings name (pull, license) must be.

    It creates the RuntimeClass `nvidia`, so none is declared here.
    """

    namespace_name: pulumi.Output[str]
    """Where operator and operands run."""

    def declare(self, name: str, args: GpuOperatorArgs) -> dict[str, Any]:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        told = config_map(f"{name}-configs", args.configs, home, parent=self)
        args.deliver(
            f"{name}-chart",
            args.chart,
            parent=self,
            depends_on=[home, *told, *args.ready],
            # An upgrade may have fields that the cluster's CRDs get only from the chart's own pre-upgrade hook.
            validate=False,
        )
        self.namespace_name = home.metadata.name
        return {"namespaceName": self.namespace_name}
