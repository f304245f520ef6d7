"""A chart that needs only the cluster's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespace import namespace
from fleet.charts import NAMESPACES
from fleet.charts.chart import Chart


@dataclass(frozen=True, slots=True)
class PlainChartArgs:
    """`chart` is one of `fleet.charts.PLAIN`. `ready` must exist before any chart: control plane and system nodes.

    `deliver` installs the chart.
    """

    chart: Chart
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class PlainChart(Component[PlainChartArgs]):
    """The chart, with its namespace if it has its own."""

    def declare(self, name: str, args: PlainChartArgs) -> None:
        before = list(args.ready)
        if args.chart.namespace in NAMESPACES:
            before.append(namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready))
        args.deliver(Delivery(f"{name}-chart", args.chart, self, before))
