"""NVIDIA's GPU operator: device plugin, feature discovery, DCGM exporter, and driver and toolkit if the node image has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
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
    """The operator in its own namespace. Create the secrets that its settings name (pull, license) in that namespace.

    It creates the RuntimeClass `nvidia`, so none is declared here.
    """

    namespace_name: pulumi.Output[str]
    """The namespace of operator and operands."""

    def declare(self, name: str, args: GpuOperatorArgs) -> dict[str, Any]:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        configs = config_map(f"{name}-configs", args.configs, home, parent=self)
        # An upgrade may use fields that only the chart's own pre-upgrade hook adds to the cluster's CRDs.
        args.deliver(Delivery(f"{name}-chart", args.chart, self, [home, *configs, *args.ready], validate=False))
        self.namespace_name = home.metadata.name
        return {"namespaceName": self.namespace_name}
