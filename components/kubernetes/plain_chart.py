"""Charts in a cluster that Pulumi installs: ARC's controller, ArgoCD, and those that need only the cluster's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespaces import namespace
from components.kubernetes.priorities import priority_class
from fleet.charts import NAMESPACES
from fleet.charts.chart import Chart
from fleet.facts.scheduling import DELETION_PROPAGATION, RUNNER_PRIORITY
from fleet.render.gitops.application import applicationset
from fleet.settings.gitops import GitOps


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


@dataclass(frozen=True, slots=True)
class ArgoCdArgs:
    """`chart` is ArgoCD's, `git` the repository that it reads.

    `ready` must exist before any chart, `needed` before the manifests in Git.
    """

    chart: Chart
    git: GitOps
    ready: Sequence[pulumi.Resource]
    needed: Sequence[pulumi.Resource]


class ArgoCd(Component[ArgoCdArgs]):
    """ArgoCD's release and the ApplicationSet that points to the cluster's folder.

    A private repository also needs a Secret with its credentials in ArgoCD's namespace. Create it yourself (docs/gitops.md).
    """

    def declare(self, name: str, args: ArgoCdArgs) -> None:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        release = by_helm(Delivery(f"{name}-chart", args.chart, self, [home, *args.ready]))
        root = applicationset(args.git)
        # ArgoCD deletes the objects that it created, so it must be deleted after them.
        root["metadata"]["annotations"] = {DELETION_PROPAGATION: "foreground"}
        custom(f"{name}-applicationset", root, parent=self, depends_on=[release, *args.needed])
