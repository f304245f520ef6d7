"""One runner scale set: what a workflow reaches with `runs-on`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.deliver import Deliver, by_helm
from components.kubernetes.isolation import isolate
from components.kubernetes.namespace import namespace
from fleet.charts.chart import Chart
from fleet.render.isolation import network_policy
from fleet.settings.egress import CLOSED
from fleet.settings.github import GitHub

# GitHub never hears of a label changed later (actions-runner-controller#4424), and a set is registered at one URL.
# A new controller deletes the sets of another minor, under an upgrade that Helm then calls deployed.
_REPLACE_ON = ("values.scaleSetLabels", "values.githubConfigUrl", "version")

MakeSecret = Callable[[str, str, kubernetes.core.v1.Namespace, pulumi.Resource], Sequence[pulumi.Resource]]
"""(logical name, namespace's name, the namespace, parent) → what makes the GitHub App's Secret there."""
Companions = Callable[[pulumi.Input[str], pulumi.Resource], Sequence[pulumi.Resource]]
"""(namespace name, parent) → what the set's pods need in their namespace; made before the set, children of `parent`."""


@dataclass(frozen=True, slots=True)
class Arc:
    """What all runner sets of a cluster share.

    `ready` and what a chart needs of `releases` (by name) outlive the sets. `closed`
    are networks that no pod of a set reaches, unless the set opens a part of them. `secret` makes the App's secret, `deliver` the
    release: None where ArgoCD brings it.
    """

    github: GitHub
    secret: MakeSecret
    releases: Mapping[str, pulumi.Resource]
    ready: Sequence[pulumi.Resource]
    closed: Sequence[str] = CLOSED
    deliver: Deliver | None = by_helm


@dataclass(frozen=True, slots=True)
class ArcRunnerSetArgs:
    """`chart` is the scale set, whose name is the chart's. `companions` makes what its pods need besides.

    `opened` are networks that its pods reach though they are closed, `private_ports` TCP ports that they reach there as well.
    """

    chart: Chart
    arc: Arc
    companions: Companions | None = None
    opened: Sequence[str] = ()
    private_ports: Sequence[int] = ()


class ArcRunnerSet(Component[ArcRunnerSetArgs]):
    """A namespace of its own with the GitHub App's secret and a scale set of ephemeral, unprivileged runners."""

    runs_on: pulumi.Output[list[str]]
    """Labels that reach the set, its name first."""

    def declare(self, name: str, args: ArcRunnerSetArgs) -> dict[str, Any]:
        chart, arc = args.chart, args.arc
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=arc.ready)
        walls = isolate(name, chart, home.metadata.name, network_policy(arc.closed, args.opened, args.private_ports), parent=self)
        secret = arc.secret(f"{name}-github-app", chart.namespace, home, self)
        companions = args.companions(home.metadata.name, self) if args.companions else ()
        if arc.deliver is not None:
            arc.deliver(
                f"{name}-chart",
                chart,
                parent=self,
                depends_on=[home, *walls, *secret, *companions, *(arc.releases[needed] for needed in chart.needs), *arc.ready],
                replace_on=_REPLACE_ON,
            )
        self.runs_on = pulumi.Output.from_input([chart.name, *chart.values["scaleSetLabels"]])
        return {"runsOn": self.runs_on}
