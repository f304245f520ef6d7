"""One runner scale set: what a workflow reaches with `runs-on`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.kubernetes.deliver import deliver
from components.kubernetes.namespace import namespace
from fleet import charts
from fleet.github import GitHub
from fleet.runner import PodRunner

# GitHub never hears of a label changed later (actions-runner-controller#4424), and a set is registered at one URL.
# A new controller deletes the sets of another minor, under an upgrade that Helm then calls deployed.
_REPLACE_ON = ("values.scaleSetLabels", "values.githubConfigUrl", "version")


@dataclass(frozen=True, slots=True)
class ArcRunnerSetArgs:
    """`private_key` is the App's key, a secret; `ready` and what the chart needs of `releases` (by name) outlive the set."""

    set_name: str
    runner: PodRunner
    github: GitHub
    group: str
    private_key: pulumi.Input[str]
    releases: Mapping[str, pulumi.Resource]
    ready: Sequence[pulumi.Resource]


class ArcRunnerSet(pulumi.ComponentResource):
    """A namespace with the GitHub App's secret and a scale set of ephemeral, unprivileged runners."""

    runs_on: pulumi.Output[list[str]]
    """Labels that reach the set, its name first."""

    def __init__(self, name: str, args: ArcRunnerSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-ci:index:ArcRunnerSet", name, {}, opts)
        chart = charts.runner_set(args.set_name, args.runner, args.github.url, args.group)
        home = namespace(f"{name}-namespace", chart.namespace, "restricted", parent=self, depends_on=args.ready)
        secret = kubernetes.core.v1.Secret(
            f"{name}-github-app",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=charts.APP_SECRET, namespace=home.metadata.name),
            string_data={
                "github_app_id": args.github.app_id,
                "github_app_installation_id": args.github.installation_id,
                "github_app_private_key": args.private_key,
            },
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        deliver(
            f"{name}-chart",
            chart,
            parent=self,
            depends_on=[home, secret, *(args.releases[needed] for needed in chart.needs), *args.ready],
            replace_on=_REPLACE_ON,
        )
        self.runs_on = pulumi.Output.from_input([args.set_name, *args.runner.labels])
        self.register_outputs({"runsOn": self.runs_on})
