"""Charts that Pulumi installs in a cluster: ARC's controller, ArgoCD, monitoring, and those that need only its settings."""

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component, Resources
from components.kubernetes.custom import custom
from components.kubernetes.deliver import deliver
from components.kubernetes.in_cluster import Inside
from components.kubernetes.namespaces import namespace
from components.kubernetes.priorities import priority_class
from fleet.charts.argo_cd import argo_cd
from fleet.charts.chart import Chart
from fleet.charts.every import NAMESPACES
from fleet.facts.scheduling import DELETION_PROPAGATION, RUNNER_PRIORITY
from fleet.providers.fleet import Fleet
from fleet.providers.installed import controller_chart, monitoring_charts
from fleet.render.gitops.application import applicationset
from fleet.render.monitoring.objects import API, monitoring_objects, storage_class
from fleet.settings.gitops import GitOps


class PlainChart(Component[Inside, Chart]):
    """A chart of `fleet.charts.every.PLAIN`, with its namespace if it has its own."""

    def declare(self, name: str, inside: Inside, chart: Chart) -> None:
        before = list(inside.ready)
        if chart.namespace in NAMESPACES:
            before.append(namespace(f"{name}-namespace", chart, parent=self, depends_on=inside.ready))
        deliver(f"{name}-chart", chart, git=inside.git, parent=self, depends_on=before)


class ArcController(Component[Inside]):
    """Actions Runner Controller and the priority class of its runners. Runner sets depend on both, so they are removed first.

    If the cluster has the controller, the component declares only the priority class.
    """

    home: pulumi.Resource | None
    """The controller's namespace. None if the cluster had the controller already."""
    release: pulumi.Resource | None
    """The controller's release, which removes the finalizers of runner sets. None if the cluster had the controller already."""
    priority: kubernetes.scheduling.v1.PriorityClass
    """The class that runner pods name. Without it the API server rejects them."""

    def declare(self, name: str, inside: Inside) -> None:
        self.home, self.release, ready = None, None, inside.ready
        if (chart := controller_chart(inside.settings)) is not None:
            self.home = namespace(f"{name}-namespace", chart, parent=self, depends_on=ready)
            self.release = deliver(f"{name}-chart", chart, git=inside.git, parent=self, depends_on=[self.home, *ready])
        self.priority = priority_class(f"{name}-runner-priority", RUNNER_PRIORITY, parent=self, depends_on=ready)


class ArgoCd(Component[Inside, GitOps, Resources]):
    """ArgoCD's release and the ApplicationSet that points to the cluster's folder in the repository `git`.

    A private repository also needs a Secret with its credentials in ArgoCD's namespace. Create it yourself (docs/gitops.md).
    `needed` must exist before the manifests in Git.
    """

    def declare(self, name: str, inside: Inside, git: GitOps, needed: Resources) -> None:
        chart = argo_cd(git.namespace)
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=inside.ready)
        release = deliver(f"{name}-chart", chart, parent=self, depends_on=[home, *inside.ready])
        root = applicationset(git)
        # ArgoCD deletes the objects that it created, so it must be deleted after them.
        root["metadata"]["annotations"] = {DELETION_PROPAGATION: "foreground"}
        custom(f"{name}-applicationset", root, parent=self, depends_on=[release, *needed])


class GpuMonitoring(Component[Inside, Fleet, Mapping[str, pulumi.Resource]]):
    """Prometheus or the objects for an existing one, and one DCGM exporter on each GPU node.

    The objects are monitors, rules and dashboards. They come after the release that installs their kinds. No two of one kind have
    the same name. `spaces` are namespaces of other components that objects may be in, by name.
    """

    def declare(self, name: str, inside: Inside, fleet: Fleet, spaces: Mapping[str, pulumi.Resource]) -> None:
        settings, ready, homes, before = inside.settings, inside.ready, dict(spaces), list[pulumi.Resource]()
        if settings.makes_class:
            storage = storage_class(settings, inside.disk_tags)
            # Parameters of a storage class never change. Existing volumes stay as they are.
            before.append(custom(f"{name}-class", storage, parent=self, depends_on=ready, replace_on=["parameters"]))
        releases = list[pulumi.Resource]()
        for chart in monitoring_charts(settings, inside.physical_name):
            role = f"{name}-{chart.name}"
            home = homes[chart.namespace] = namespace(f"{role}-namespace", chart, parent=self, depends_on=ready)
            needed = [home, *before, *ready]
            releases.append(deliver(f"{role}-chart", chart, git=inside.git, parent=self, depends_on=needed))
        for manifest in monitoring_objects(fleet, inside.name):
            where = homes.get(manifest["metadata"]["namespace"])
            # The kinds of Prometheus's operator come with its release. Other kinds need only their namespace.
            kinds = releases if manifest["apiVersion"] == API else []
            needed = [*kinds, *ready, *([where] if where is not None else [])]
            custom(f"{name}.{manifest['metadata']['name']}", manifest, parent=self, depends_on=needed)
