"""Kueue, once a cluster, with what all its queues share: flavors and the order of Jobs by priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, by_helm
from components.kubernetes.namespace import namespace
from fleet.charts.chart import Chart
from fleet.render.queues import QueueObjects


@dataclass(frozen=True, slots=True)
class QueueControllerArgs:
    """`chart` is Kueue's, `objects` what it is told of the cluster.

    `ready` are the resources that stand before any chart: control plane, system nodes, and the priority classes of pods, which
    are not Kueue's and stay without it. `deliver` is who brings charts.
    """

    chart: Chart
    objects: QueueObjects
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class QueueController(Component[QueueControllerArgs]):
    """Kueue in a namespace of its own. Queues and their namespaces wait for it, and so are removed before it.

    Its webhooks judge what is made and its finalizers hold what is deleted: without it neither would end. Names of what the
    settings name have a dot before them: no two joins of names meet.
    """

    release: pulumi.Resource
    """Ready when the webhooks answer."""
    flavors: dict[str, pulumi.Resource]
    """The flavor of each pool that has one, by the pool's name."""

    def declare(self, name: str, args: QueueControllerArgs) -> None:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        self.release = args.deliver(f"{name}-chart", args.chart, parent=self, depends_on=[home, *args.ready])
        for each in args.objects.priorities:
            custom(f"{name}-{each['metadata']['name']}", each, parent=self, depends_on=[self.release])
        self.flavors = {
            pool: custom(f"{name}.{pool}", each, parent=self, depends_on=[self.release])
            for each in args.objects.flavors
            for pool in [each["metadata"]["name"]]
        }
