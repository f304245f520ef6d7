"""The objects of one runner scale set: its namespace, isolation, Secret and release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Deliver, Delivery
from components.kubernetes.namespaces import namespace
from fleet.charts.chart import Chart
from fleet.prove.namespace_limits import limit_range, resource_quota

_NAME = "runners"
"""The name of all three objects, because a namespace has one of each."""


def isolate(
    logical_name: str, chart: Chart, namespace: pulumi.Input[str], network_policy: Mapping[str, Any], *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """A NetworkPolicy with the given spec, a ResourceQuota and a LimitRange for a set's pods, all created before its release.

    The namespace itself enforces a Pod Security Standard. Its default ServiceAccount is unchanged: it has no rights and none of
    the runner pods uses it.
    """
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=_NAME, namespace=namespace)
    opts = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
    return [
        kubernetes.networking.v1.NetworkPolicy(
            f"{logical_name}-network", metadata=metadata, spec=dict(network_policy), opts=opts
        ),
        kubernetes.core.v1.ResourceQuota(f"{logical_name}-quota", metadata=metadata, spec=resource_quota(chart), opts=opts),
        kubernetes.core.v1.LimitRange(f"{logical_name}-limits", metadata=metadata, spec=limit_range(chart), opts=opts),
    ]


# ARC never sends changed labels to GitHub (actions-runner-controller#4424), and a set is registered at one URL.
# A new controller deletes the sets of another minor version, during an upgrade that Helm then reports as deployed.
_REPLACE_ON = ("values.scaleSetLabels", "values.githubConfigUrl", "version")

MakeSecret = Callable[[str, pulumi.Input[str], pulumi.Resource], Sequence[pulumi.Resource]]
"""(name of the set's component, namespace's name with its dependency, parent) → resources that create the App's Secret there."""
Companions = Callable[[pulumi.Input[str], pulumi.Resource], Sequence[pulumi.Resource]]
"""(namespace name, parent) → resources that the set's pods need in their namespace, created before the set below `parent`."""


@dataclass(frozen=True, slots=True)
class ScaleSetArgs:
    """`chart` is the scale set and has its name. `companions` creates the other resources that its pods need.

    `needed` must exist before. `secret` and `deliver` are None if another program creates the Secret or the release. `policy` is
    the spec of the NetworkPolicy; None: no isolation. With `owns_namespace` the set creates its namespace. With `by_waves` it is
    in Git, where sync waves order namespaces.
    """

    chart: Chart
    needed: Sequence[pulumi.Resource]
    secret: MakeSecret | None
    deliver: Deliver | None
    policy: Mapping[str, Any] | None
    companions: Companions | None = None
    owns_namespace: bool = True
    by_waves: bool = False


def scale_set(name: str, args: ScaleSetArgs, *, parent: pulumi.Resource) -> pulumi.Output[list[str]]:
    """Declare the objects below `parent`. Returns the labels that select the set in `runs-on`, its name first."""
    chart, needed = args.chart, list(args.needed)
    home: pulumi.Input[str] = chart.namespace
    if args.owns_namespace:
        space = namespace(f"{name}-namespace", chart, parent=parent, depends_on=() if args.by_waves else needed)
        home = space.metadata.name
        needed.append(space)
    if args.policy is not None:
        needed += isolate(name, chart, home, args.policy, parent=parent)
    if args.secret is not None:
        needed += args.secret(name, home, parent)
    if args.companions is not None:
        needed += args.companions(home, parent)
    if args.deliver is not None:
        args.deliver(Delivery(f"{name}-chart", chart, parent, needed, replace_on=_REPLACE_ON))
    return pulumi.Output.from_input([chart.name, *chart.values["scaleSetLabels"]])


class ScaleSet(Component[ScaleSetArgs]):
    """A runner scale set whose chart another component makes."""

    _kind = "ArcRunnerSet"  # the state has it under this token

    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""
    namespace_name: pulumi.Output[str]
    """The set's namespace."""

    def declare(self, name: str, args: ScaleSetArgs) -> dict[str, Any]:
        self.runs_on = scale_set(name, args, parent=self)
        self.namespace_name = pulumi.Output.from_input(args.chart.namespace)
        return {"runsOn": self.runs_on, "namespaceName": self.namespace_name}


def objects(
    manifests: Sequence[Mapping[str, Any]], namespace: str, name: str, home: pulumi.Input[str], parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """Declare manifests below `parent`. Those in the set's namespace wait for it: `home` is its name with the dependency."""
    resources: list[pulumi.Resource] = []
    for manifest in manifests:
        metadata = dict(manifest["metadata"])
        if metadata.get("namespace") == namespace:
            metadata["namespace"] = home
        resources.append(custom(f"{name}-{metadata['name']}", {**manifest, "metadata": metadata}, parent=parent, depends_on=()))
    return resources
