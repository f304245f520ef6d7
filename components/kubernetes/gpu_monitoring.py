"""Metrics, alerts and dashboards of a cluster: Prometheus, the DCGM exporter, and what both read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespaces import namespace
from fleet.charts.chart import Chart
from fleet.facts.manifest import Manifest
from fleet.render.monitoring.objects import API


@dataclass(frozen=True, slots=True)
class GpuMonitoringArgs:
    """`charts` are Prometheus and the DCGM exporter, or those of them that the cluster lacks, each in its own namespace.

    `storage` has the storage class of Prometheus's volume, if the program creates it. `objects` are monitors, rules and
    dashboards. `ready` must exist before any chart. `spaces` are namespaces of other components that objects may be in, by name.
    `deliver` installs a chart.
    """

    charts: Sequence[Chart]
    storage: Sequence[Manifest]
    objects: Sequence[Manifest]
    ready: Sequence[pulumi.Resource]
    spaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    deliver: Deliver = by_helm


class GpuMonitoring(Component[GpuMonitoringArgs]):
    """Prometheus or the objects for an existing one, and one DCGM exporter on each GPU node.

    The objects come after the release that installs their kinds. No two of one kind have the same name.
    """

    def declare(self, name: str, args: GpuMonitoringArgs) -> None:
        # Parameters of a storage class never change. Existing volumes stay as they are.
        classes = [
            custom(f"{name}-class", manifest, parent=self, depends_on=args.ready, replace_on=["parameters"])
            for manifest in args.storage
        ]
        spaces, releases = dict(args.spaces), list[pulumi.Resource]()
        for chart in args.charts:
            home = spaces[chart.namespace] = namespace(
                f"{name}-{chart.name}-namespace", chart, parent=self, depends_on=args.ready
            )
            release = args.deliver(Delivery(f"{name}-{chart.name}-chart", chart, self, [home, *classes, *args.ready]))
            releases.append(release)
        for manifest in args.objects:
            where = spaces.get(manifest["metadata"]["namespace"])
            # The kinds of Prometheus's operator come with its release. Other kinds need only their namespace.
            kinds = releases if manifest["apiVersion"] == API else []
            needed = [*kinds, *args.ready, *([where] if where is not None else [])]
            custom(f"{name}.{manifest['metadata']['name']}", manifest, parent=self, depends_on=needed)
