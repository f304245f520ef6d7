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
from fleet.charts.arc import arc_controller
from fleet.facts.scheduling import RUNNER_PRIORITY


@dataclass(frozen=True, slots=True)
class ArcControllerArgs:
    """`ready` must exist before any chart: control plane and system nodes. `deliver` installs the chart."""

    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm


class ArcController(Component[ArcControllerArgs]):
    """Actions Runner Controller and the priority class of its runners. Runner sets depend on both, so they are removed first."""

    release: pulumi.Resource
    """The controller's release, which removes the finalizers of runner sets."""
    priority: kubernetes.scheduling.v1.PriorityClass
    """The class that runner pods name. Without it the API server rejects them."""

    def declare(self, name: str, args: ArcControllerArgs) -> None:
        chart = arc_controller()
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=args.ready)
        self.release = args.deliver(Delivery(f"{name}-chart", chart, self, [home, *args.ready]))
        self.priority = priority_class(f"{name}-runner-priority", RUNNER_PRIORITY, parent=self, depends_on=args.ready)
