"""The controller of GitHub's runner scale sets, one per cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespace import namespace
from components.kubernetes.priority_class import priority_class
from fleet.charts.chart import Chart
from fleet.facts.scheduling import RUNNER_PRIORITY


@dataclass(frozen=True, slots=True)
class ArcControllerArgs:
    """`chart` is the controller's. None: the cluster has it, and the component declares only the priority class.

    `ready` must exist before any chart: control plane and system nodes. `deliver` installs the chart.
    """

    chart: Chart | None
    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class ArcController(Component[ArcControllerArgs]):
    """Actions Runner Controller and the priority class of its runners. Runner sets depend on both, so they are removed first."""

    home: pulumi.Resource | None
    """The controller's namespace. None if the cluster had the controller already."""
    release: pulumi.Resource | None
    """The controller's release, which removes the finalizers of runner sets. None if the cluster had the controller already."""
    priority: kubernetes.scheduling.v1.PriorityClass
    """The class that runner pods name. Without it the API server rejects them."""

    def declare(self, name: str, args: ArcControllerArgs) -> None:
        self.home, self.release = None, None
        if args.chart is not None:
            self.home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
            self.release = args.deliver(Delivery(f"{name}-chart", args.chart, self, [self.home, *args.ready]))
        self.priority = priority_class(f"{name}-runner-priority", RUNNER_PRIORITY, parent=self, depends_on=args.ready)
