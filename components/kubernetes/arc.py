"""What all runner sets of a cluster share, and the arguments of each set from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pulumi

from components.arguments import given, plain
from components.kubernetes.arc_runner_set import ArcRunnerSetArgs
from components.kubernetes.deliver import delivery
from components.kubernetes.enablement import gitops_args, tolerance
from components.kubernetes.github_secret import by_program
from components.kubernetes.scale_set import Companions, MakeSecret, ScaleSetArgs, objects
from fleet.charts.arc import CONTROLLER, NAMESPACE, Place, place_in
from fleet.charts.chart import Chart
from fleet.providers.target import pool_target
from fleet.render.gitops.secrets import github_app
from fleet.render.isolation import network_policy
from fleet.render.manifest import Manifest
from fleet.settings.cluster import Cluster
from fleet.settings.egress import CLOSED
from fleet.settings.github import GitHub
from fleet.settings.gitops import GitOps, GitSecrets
from fleet.settings.runner import PodRunner, RunnerPod


@dataclass(frozen=True, slots=True)
class Arc:
    """What all runner sets of a cluster share.

    `private_key` is the GitHub App's key, if the program writes the App's Secret. `after` must exist before a set, and is deleted
    after it: system nodes, the controller and the priority class. `closed` are networks that no pod of a set can reach, except
    the parts that the set opens. With `git` each set is an ArgoCD Application; objects in Git make its Secret as `secrets` says.
    Without `installs` another program installs the charts.
    """

    github: GitHub
    private_key: pulumi.Input[str] | None
    after: Sequence[pulumi.Resource]
    closed: Sequence[str] = CLOSED
    git: GitOps | None = None
    secrets: GitSecrets | None = None
    installs: bool = True

    def manifests(self, namespace: str) -> tuple[Manifest, ...]:
        """The objects in Git that create the App's Secret in a namespace."""
        if self.git is None or self.secrets is None:
            return ()
        return github_app(namespace, self.github, self.git, self.secrets)

    def parts(self, chart: Chart, companions: Companions, private_ports: Sequence[int] = ()) -> ScaleSetArgs:
        """The arguments of a set whose chart another component makes. Its pods reach `private_ports` of closed networks."""
        return ScaleSetArgs(
            chart,
            self.after,
            secret=self._secret(chart.namespace),
            deliver=delivery(self.git) if self.installs else None,
            policy=network_policy(self.closed, (), private_ports),
            companions=companions,
        )

    def _secret(self, namespace: str) -> MakeSecret | None:
        if self.private_key is not None:
            return by_program(self.github, self.private_key)
        manifests = self.manifests(namespace)
        return partial(objects, manifests, namespace) if manifests else None


def runner_set_args(cluster: Cluster, name: str, runner: PodRunner, arc: Arc) -> ArcRunnerSetArgs:
    """The arguments of a set whose runners are pods of a pool."""
    target, place = pool_target(cluster, runner.pool), place_in(cluster)
    app = {"app_id": arc.github.app_id, "installation_id": arc.github.installation_id, "private_key": arc.private_key}
    args: ArcRunnerSetArgs = given(
        github_url=arc.github.url,
        github_app=app if arc.private_key is not None else None,
        runner_scale_set_name=name,
        runner_group=runner.group or arc.github.group,
        min_runners=runner.scale.min,
        max_runners=runner.scale.max,
        gpu_resource=target.resource,
        node_selector=target.selector,
        tolerations=[tolerance(each) for each in target.tolerations],
        runtime_class=target.runtime_class,
        listener_node_selector=dict(place.listener_selector),
        priority_class=place.priority_class,
        **_controller(place),
        closed_networks=list(arc.closed),
        open_networks=list(cluster.private_egress),
        gitops=gitops_args(arc.git),
        **plain(runner, "kind", "scale", "group", *(type(runner).model_fields.keys() - RunnerPod.model_fields.keys())),
    )
    return args | {"mounts_shm": target.mounts_shm, "install_chart": arc.installs}


def _controller(place: Place) -> dict[str, str]:
    """Namespace and service account of a controller that the program did not install."""
    if (place.controller_namespace, place.controller_account) == (NAMESPACE, CONTROLLER):
        return {}
    return {"controller_namespace": place.controller_namespace, "controller_service_account": place.controller_account}
