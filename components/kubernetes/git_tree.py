"""The part of a cluster in Git, for ArgoCD: the same components, with Applications instead of releases."""

import pulumi_kubernetes as kubernetes

from components.component import Component
from components.context import Context
from components.kubernetes.custom import custom
from components.kubernetes.deliver import deliver
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import declare_sweeps, furnish, runner_sets
from components.kubernetes.provider import from_registry
from fleet.charts.chart import Chart
from fleet.prove.bill import waiting_per_node
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set
from fleet.providers.registry import PROVIDERS
from fleet.providers.tags import fixed_tags
from fleet.render.gitops.application import applicationset
from fleet.render.gitops.secrets import github_app
from fleet.settings.cluster import Cluster
from fleet.settings.gitops import GitOps
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner


class GitTree(Component[Inside, Fleet, GitOps]):
    """Objects in Git that no other component declares: the provider's own charts, the ApplicationSet if no program applies it.

    If a program creates the namespaces of runner sets, also the sets' releases, and their Secrets unless the program writes them.
    """

    def declare(self, name: str, inside: Inside, fleet: Fleet, git: GitOps) -> None:
        github, deployable = fleet.github, inside.furnished
        for chart in PROVIDERS[inside.settings.provider].charts(inside.settings, inside.physical_name, github):
            self._deliver(name, inside, chart)
        if not deployable:
            custom(f"{name}-applicationset", applicationset(git), parent=self)
        for set_name, runner in inside.settings.runners.items() if deployable else ():
            namespace, scope = runner_namespace(set_name), inside.settings.scope_of(runner)
            for manifest in github_app(namespace, github.every[scope], git, inside.settings.secrets_of(scope)):
                custom(f"{name}.{namespace}.github-app", manifest, parent=self)
            if isinstance(runner, PodRunner):
                per_node = waiting_per_node(inside.settings, runner)
                self._deliver(name, inside, pod_set(inside.settings, set_name, runner, github, per_node))

    def _deliver(self, name: str, inside: Inside, chart: Chart) -> None:
        """Dots precede names from the settings, because a runner set may have the name of a chart."""
        deliver(f"{name}.{chart.namespace}.{chart.name}", chart, git=inside.git, parent=self, depends_on=())


def declare(name: str, settings: Cluster, fleet: Fleet, context: Context) -> None:
    """Declare everything of the cluster `name` that is in Git. Raises ValueError if Helm installs the cluster's charts."""
    if (git := settings.gitops) is None:
        raise ValueError(f"{name}: delivery is {settings.delivery}; Git has nothing of it")
    deployable = PROVIDERS[settings.provider].deployable
    called, tags = context.cluster_name(name), fixed_tags(context.stack, name)
    opts = from_registry(settings.mirror, [kubernetes.Provider(f"{name}-git", cluster_identifier=called)])
    inside = Inside(name, settings, (), opts, git=git, furnished=deployable, physical_name=called, disk_tags=tags)
    GitTree(f"{name}-tree", inside.opts, inside, fleet, git)
    arc = furnish(inside, fleet, {})
    declare_sweeps(arc, {} if deployable else runner_sets(arc))
