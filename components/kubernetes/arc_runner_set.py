"""One runner scale set. Workflows use it with `runs-on`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.deliver import Deliver, Delivery, by_helm
from components.kubernetes.isolation import isolate
from components.kubernetes.namespace import namespace
from fleet.charts.chart import Chart
from fleet.render.isolation import network_policy
from fleet.settings.egress import CLOSED
from fleet.settings.github import GitHub

# ARC never sends changed labels to GitHub (actions-runner-controller#4424), and a set is registered at one URL.
# A new controller deletes the sets of another minor version, during an upgrade that Helm then reports as deployed.
_REPLACE_ON = ("values.scaleSetLabels", "values.githubConfigUrl", "version")

MakeSecret = Callable[[str, str, kubernetes.core.v1.Namespace, pulumi.Resource], Sequence[pulumi.Resource]]
"""(logical name, namespace's name, the namespace, parent) → resources that create the GitHub App's Secret there."""
Companions = Callable[[pulumi.Input[str], pulumi.Resource], Sequence[pulumi.Resource]]
"""(namespace name, parent) → resources that the set's pods need in their namespace, created before the set below `parent`."""


@dataclass(frozen=True, slots=True)
class Arc:
    """What all runner sets of a cluster share.

    `ready`, and the charts in `releases` (by name) that a set needs, are deleted after the sets. `closed` are networks that no
    pod of a set can reach, except the parts that the set opens. `secret` creates the App's Secret and `deliver` the release; each
    is None if Git has it.
    """

    github: GitHub
    secret: MakeSecret | None
    releases: Mapping[str, pulumi.Resource]
    ready: Sequence[pulumi.Resource]
    closed: Sequence[str] = CLOSED
    deliver: Deliver | None = by_helm


@dataclass(frozen=True, slots=True)
class ArcRunnerSetArgs:
    """`chart` is the scale set and has its name. `companions` creates the other resources that its pods need.

    `opened` are parts of the closed networks that its pods can reach, `private_ports` TCP ports that they can
    reach in all of them.
    """

    chart: Chart
    arc: Arc
    companions: Companions | None = None
    opened: Sequence[str] = ()
    private_ports: Sequence[int] = ()


class ArcRunnerSet(Component[ArcRunnerSetArgs]):
    """A scale set of ephemeral, unprivileged runners in its own namespace, with the GitHub App's Secret."""

    namespace: pulumi.Output[str]
    """Name of the namespace of its runners."""
    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""

    def declare(self, name: str, args: ArcRunnerSetArgs) -> dict[str, Any]:
        chart, arc = args.chart, args.arc
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=arc.ready)
        policy = network_policy(arc.closed, args.opened, args.private_ports)
        isolation = isolate(name, chart, home.metadata.name, policy, parent=self)
        secret = arc.secret(f"{name}-github-app", chart.namespace, home, self) if arc.secret else ()
        companions = args.companions(home.metadata.name, self) if args.companions else ()
        if arc.deliver is not None:
            needed = [home, *isolation, *secret, *companions, *(arc.releases[other] for other in chart.needs), *arc.ready]
            arc.deliver(Delivery(f"{name}-chart", chart, self, needed, replace_on=_REPLACE_ON))
        self.namespace = pulumi.Output.from_input(chart.namespace)
        self.runs_on = pulumi.Output.from_input([chart.name, *chart.values["scaleSetLabels"]])
        return {"namespace": self.namespace, "runsOn": self.runs_on}
