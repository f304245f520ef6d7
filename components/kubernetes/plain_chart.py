"""Charts that Pulumi installs in a cluster: ARC's controller, ArgoCD, monitoring, and those that need only its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.namespaces import namespace
from components.kubernetes.priorities import priority_class
from fleet.charts import NAMESPACES
from fleet.charts.chart import Chart
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import DELETION_PROPAGATION, RUNNER_PRIORITY
from fleet.render.gitops.application import applicationset
from fleet.render.monitoring.objects import API
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
