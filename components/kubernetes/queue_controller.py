"""Kueue, one per cluster, with the flavors and priorities that all its queues share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespace import namespace
from fleet.charts.chart import Chart
from fleet.render.queues import QueueObjects


@dataclass(frozen=True, slots=True)
class QueueControllerArgs:
    """`chart` is Kueue's, `objects` its configuration for the cluster.

    `ready` must exist before any chart: control plane, system nodes, and the priority classes of pods, which do not belong to
    Kueue. `deliver` installs the chart.
    """

    chart: Chart
    objects: QueueObjects
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class QueueController(Component[QueueControllerArgs]):
    """Kueue in its own namespace. Queues and their namespaces depend on it, so they are deleted before it.

    Its webhooks check new objects and its finalizers hold deleted ones, so without Kueue neither would finish. A dot precedes
    names from the settings, so that no two logical names collide.
    """

    release: pulumi.Resource
    """Ready when the webhooks answer."""
    flavors: dict[str, pulumi.Resource]
    """The flavor of each pool that has one, by the pool's name."""

    def declare(self, name: str, args: QueueControllerArgs) -> None:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        self.release = args.deliver(Delivery(f"{name}-chart", args.chart, self, [home, *args.ready]))
        for manifest in args.objects.priorities:
            custom(f"{name}-{manifest['metadata']['name']}", manifest, parent=self, depends_on=[self.release])
        self.flavors = {
            pool: custom(f"{name}.{pool}", manifest, parent=self, depends_on=[self.release])
            for manifest in args.objects.flavors
            for pool in [manifest["metadata"]["name"]]
        }
