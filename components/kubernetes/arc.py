"""What all runner sets of a cluster share, and the arguments of each set from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import given, plain
from components.kubernetes.arc_runner_set import ArcRunnerSetArgs
from components.kubernetes.enablement import gitops_args, tolerance
from fleet.charts.arc import CONTROLLER, NAMESPACE, Place, place_in
from fleet.facts.manifest import Manifest
from fleet.prove.waiting import waiting_per_node
from fleet.providers.installed import runner_price
from fleet.providers.target import pool_target
from fleet.render.gitops.secrets import github_app
from fleet.settings.cluster import Cluster
from fleet.settings.egress import CLOSED
from fleet.settings.github import GitHub
from fleet.settings.gitops import GitOps, GitSecrets
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner, RunnerPod


@dataclass(frozen=True, slots=True)
class Arc:
    """What all runner sets of a cluster share.

    `private_key` is the GitHub App's key, if the program writes the App's Secret. `after` must exist before a set, and is deleted
    after it: system nodes, the controller and the priority class. `closed` are networks that no pod of a set can reach, except
    the parts that the set opens. With `git` each set is an ArgoCD Application; objects in Git make its Secret as `secrets` says.
    Without `installs` another program installs the charts. `home` is the controller's namespace, if the program creates it.
    """

    github: GitHub
    private_key: pulumi.Input[str] | None
    after: Sequence[pulumi.Resource]
    closed: Sequence[str] = CLOSED
    git: GitOps | None = None
    secrets: GitSecrets | None = None
    installs: bool = True
    home: pulumi.Resource | None = None

    def arguments(self, cluster: Cluster, name: str) -> Any:
        """The arguments of the set `name` of a cluster that do not depend on the kind of its runners."""
        place = place_in(cluster, cluster.runners[name])
        app = {"app_id": self.github.app_id, "installation_id": self.github.installation_id}
        args = given(
            github_url=self.github.url,
            github_app=app if self.private_key is not None else None,
            github_private_key=self.private_key,
            runner_scale_set_name=name,
            listener_node_selector=dict(place.listener_selector),
            priority_class=place.priority_class,
            **_controller(place),
            closed_networks=list(self.closed),
            manifests=list(self._manifests(runner_namespace(name))),
            gitops=gitops_args(self.git),
        )
        return args | {"install_chart": self.installs}

    def _manifests(self, namespace: str) -> tuple[Manifest, ...]:
        """The objects in Git that create the App's Secret in a namespace."""
        if self.git is None or self.secrets is None:
            return ()
        return github_app(namespace, self.github, self.git, self.secrets)


def runner_set_args(cluster: Cluster, name: str, runner: PodRunner, arc: Arc) -> ArcRunnerSetArgs:
    """The arguments of a set whose runners are pods of one pool, or of several in order."""
    target, runner = pool_target(cluster, *runner.ordered), cluster.with_image(runner)
    nodes = {"node_selector": target.selector} if len(target.selectors) == 1 else {"node_selectors": target.selectors}
    args: ArcRunnerSetArgs = given(
        runner_group=runner.group or arc.github.group,
        min_runners=runner.scale.min,
        max_runners=runner.scale.max,
        gpu_resource=target.resource,
        **nodes,
        tolerations=[tolerance(each) for each in target.tolerations],
        runtime_class=target.runtime_class,
        usd_per_hour=runner_price(cluster, runner),
        per_node=waiting_per_node(cluster, runner),
        open_networks=list(cluster.private_egress),
        **plain(runner, "kind", "scale", "group", *(type(runner).model_fields.keys() - RunnerPod.model_fields.keys())),
    )
    args |= arc.arguments(cluster, name)
    return args | {"mounts_shm": target.mounts_shm, "declare_min_runners": runner.schedules is None}


def _controller(place: Place) -> dict[str, str]:
    """Namespace and service account of a controller that the program did not install."""
    if (place.controller_namespace, place.controller_account) == (NAMESPACE, CONTROLLER):
        return {}
    return {"controller_namespace": place.controller_namespace, "controller_service_account": place.controller_account}
