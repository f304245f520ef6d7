"""The controller of GitHub's runner scale sets, one per cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespace import namespace
from components.kubernetes.priority_class import priority_class
from fleet.charts.arc import Arc, arc_controller
from fleet.facts.scheduling import RUNNER_PRIORITY


@dataclass(frozen=True, slots=True)
class ArcControllerArgs:
    """`ready` must exist before any chart: control plane and system nodes. `deliver` installs the chart.

    `arc` is ARC as the cluster has it. If the cluster has the controller already, only the priority class is declared.
    """

    ready: Sequence[pulumi.Resource]
    deliver: Deliver = by_helm
    arc: Arc = field(default_factory=Arc)


class ArcController(Component[ArcControllerArgs]):
    """Actions Runner Controller and the priority class of its runners. Runner sets depend on both, so they are removed first."""

    releases: Mapping[str, pulumi.Resource]
    """The controller's release by name, which removes the finalizers of runner sets. Empty if it is not the program's."""
    priority: kubernetes.scheduling.v1.PriorityClass
    """The class that runner pods name. Without it the API server rejects them."""

    def declare(self, name: str, args: ArcControllerArgs) -> None:
        self.releases = {}
        if args.arc.ours:
            chart = arc_controller(args.arc.system)
            home = namespace(f"{name}-namespace", chart, parent=self, depends_on=args.ready)
            self.releases = {chart.name: args.deliver(Delivery(f"{name}-chart", chart, self, [home, *args.ready]))}
        self.priority = priority_class(f"{name}-runner-priority", RUNNER_PRIORITY, parent=self, depends_on=args.ready)
