"""Prints a plan on the terminal: first and last the result and what fails, between them placement, price, remarks, the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from fleet.facts.scheduling import BLOCK_TYPE_TAG
from gpu_ci.offline import words
from gpu_ci.offline.base import Base
from gpu_ci.offline.changes import changed_lines
from gpu_ci.offline.ended import ENDED
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.layout import show_line, show_packed, show_table
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Resource

_FEW = 3
"""Siblings of one type that are listed one by one. More siblings become one line with their count."""


def report(plan: Plan, console: Console, strict: bool = False, verbose: bool = False, base: Base | None = None) -> None:
    """Print the plan, with the changes from the base if there is one.

    What fails and the result are at the top and again at the end, because a reader of a terminal or of a log sees the end first.
    `strict` as in `Plan.passes`; `verbose` lists the resources and every policy.
    """
    console.print(Text(f"gpu-ci plan of stack {plan.config.stack} on {plan.as_of}", style="bold"))
    _result(plan, console, strict)
    _failures(plan, console, strict, verbose)
    console.print()
    _secrets(plan, console)
    _placement(plan, console)
    _price(plan, console)
    if base is not None:
        _heading("Before → after", console)
        for line in changed_lines(plan, base):
            show_line(console, line, indent="  ")
    _notes(plan, console, verbose)
    if plan.recording is not None:
        _resources(plan, console, verbose)
        _policies(plan, console, strict, verbose)
    console.print()
    _failures(plan, console, strict, verbose)
    _result(plan, console, strict)


def _heading(text: str, console: Console) -> None:
    console.print()
    show_line(console, text, "bold")


# -- the result --------------------------------------------------------------------------------------------------------


def _result(plan: Plan, console: Console, strict: bool) -> None:
    color = {"ok": "green", "failed": "red"}.get(words.state(plan, strict)[0], "yellow")
    show_packed(console, words.result(plan, strict), f"bold {color}")


def _failures(plan: Plan, console: Console, strict: bool, verbose: bool) -> None:
    """Print what fails the plan or cannot work, a line for each; in a pipe it is not wrapped, so that a log can be searched."""
    for line in (
        *(str(words.refusal(plan.config, refused)) for refused in plan.refused),
        *_verdicts(plan.blocked(strict), verbose),
    ):
        show_line(console, line, "red", indent="  ", whole=True)
    for remark in plan.impossible:
        show_line(console, f"cannot work: {remark}", "red" if remark in plan.written else "yellow", indent="  ", whole=True)


def _verdicts(verdicts: Iterable[Verdict], verbose: bool) -> Iterator[str]:
    """A line for each group of equal verdicts, with the names of the first resources; `verbose` names all."""
    for verdict, names in words.alike(verdicts):
        yield words.said(verdict, names, len(names) if verbose else _FEW)


def _notes(plan: Plan, console: Console, verbose: bool) -> None:
    """Print what ends and the remarks; without `verbose` the first of them."""
    lines = words.notes(plan, plan.remarks)
    first = lines if verbose else lines[: words.MOST_NOTES]
    if lines:
        _heading("Ends and remarks", console)
    for line in first:
        show_line(console, f"! {line}", "yellow", indent="  ")
    if more := len(lines) - len(first):
        show_line(console, f"{more} more: -v", indent="  ")


def _secrets(plan: Plan, console: Console) -> None:
    command = "pulumi preview" if plan.fleet.deployable else "git diff of the rendered folder"
    note = f"This plan proves the settings offline. It is not a diff against deployed resources; use {command} for that."
    show_line(console, note)
    if plan.secrets:
        show_line(console, f"Secrets are not read offline; placeholders replace: {', '.join(plan.secrets)}")


# -- resources ---------------------------------------------------------------------------------------------------------


def _resources(plan: Plan, console: Console, verbose: bool) -> None:
    _heading(f"Resources: {len(plan.resources)}" + ("" if verbose else _LISTED), console)
    if not verbose or plan.recording is None:
        return
    children: dict[str, list[Resource]] = {}
    for resource in plan.resources:
        children.setdefault(resource.parent, []).append(resource)
    tree = Tree(f"{plan.config.project}-{plan.config.stack}")
    _grow(tree, plan.recording.resources[0].urn, children)
    console.print(tree, crop=False)


_LISTED = " (-v lists them)"


def _grow(tree: Tree, urn: str, children: Mapping[str, list[Resource]]) -> None:
    """Add what is below a resource."""
    mine = sorted(children.get(urn, []), key=_order)
    counts = Counter(resource.type for resource in mine if resource.urn not in children)
    branches: dict[str, str] = {}
    for resource in mine:
        alone = resource.urn in children or counts[resource.type] <= _FEW
        branches[_label(resource) if alone else f"{words.short(resource.type)} x{counts[resource.type]}"] = resource.urn
    for label, below in branches.items():
        # A name that is longer than the terminal is wide stays whole.
        _grow(tree.add(Text(label, overflow="ignore")), below, children)


def _order(resource: Resource) -> tuple[bool, str, str]:
    """Providers first, then by type and name, because the order of registration is not stable."""
    return not resource.type.startswith("pulumi:"), resource.type, resource.name


def _label(resource: Resource) -> str:
    details = detail(resource.type, resource.inputs)
    if resource.remote:
        details = f"{details}; opaque: children judged at preview"
    return f"{words.short(resource.type)} {resource.name}" + (f"  {details}" if details else "")


def detail(token: str, inputs: Mapping[str, Any]) -> str:
    """The text after the name of a resource of this type in the tree; "" for most types, and for inputs that are not known."""
    texts = {name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value for name, value in inputs.items()}
    if isinstance(tags := inputs.get("tags"), Mapping) and BLOCK_TYPE_TAG in tags:
        # The type of a capacity block is in the launch template, and in a tag for readers.
        texts.setdefault("instanceTypes", tags[BLOCK_TYPE_TAG])
    try:
        return _DETAILS.get(token, "").format_map(texts)
    except (KeyError, TypeError, ValueError):
        return ""


_DETAILS = {
    "aws:eks/nodeGroup:NodeGroup": "{capacityType} {instanceTypes}, {scalingConfig[minSize]}-{scalingConfig[maxSize]} nodes",
    "kubernetes:helm.sh/v3:Release": "{version} in {namespace}",
    "kubernetes:argoproj.io/v1alpha1:Application": "in {spec[destination][namespace]}, by ArgoCD",
    "gpu-ci:index:TalosGpuNode": "{instanceType} ({gpus} {gpu}) at {address}",
    "aws:eks/addon:Addon": "{addonVersion}",
    "eks:index:Cluster": "Kubernetes {version}",
    "oci:ContainerEngine/cluster:Cluster": "Kubernetes {kubernetesVersion}",
    "oci:ContainerEngine/nodePool:NodePool": "{nodeShape}, {nodeConfigDetails[size]:g} nodes at first",
    "oci:ContainerEngine/addon:Addon": "{addonName}",
    "oci:Core/instanceConfiguration:InstanceConfiguration": "{instanceDetails[launchDetails][shape]}",
    "oci:Core/instancePool:InstancePool": "{size:g} machines",
}
"""Details by type, as formats of the inputs."""


# -- placement ---------------------------------------------------------------------------------------------------------


def _placement(plan: Plan, console: Console) -> None:
    _heading("Placement", console)
    places = [(placement, words.place(placement, plan.fleet.clusters[placement.cluster].region)) for placement in plan.placements]
    show_table(
        console,
        ("=runner set", "runs-on", "asks", "pool", "a node holds, limited by", ">runners", ">pool holds", ">$/runner-hour"),
        [
            (
                place.name,
                ", ".join((placement.runner_set, *placement.runner.labels)),
                place.asks,
                place.pool,
                "\n".join(place.holds),
                place.runners,
                place.held,
                place.hour,
            )
            for placement, place in places
        ],
    )


# -- price -------------------------------------------------------------------------------------------------------------


def _price(plan: Plan, console: Console) -> None:
    _heading("Price, USD an hour", console)
    idle, worst = plan.cost
    show_table(
        console,
        ("=cluster", "=item", "what", ">count", ">each", ">idle", ">worst"),
        [
            (line.cluster, line.item, line.what, words.count(line), words.each(line), str(line.idle), str(line.worst))
            for line in plan.bill
        ],
        total=("", "total", "", "", "", str(idle), str(worst)),
    )
    for note in words.price_notes(plan.bill):
        show_line(console, note, "dim", indent="  ")
    if plan.weeks:
        _heading(words.week_title(plan), console)
        show_table(
            console,
            tuple(f"={name}" if name == "window" else name for name in words.SCHEDULES),
            list(map(words.week, plan.weeks)),
        )
        show_line(console, words.WEEK_NOTE, "dim", indent="  ")


# -- policies ----------------------------------------------------------------------------------------------------------


def _policies(plan: Plan, console: Console, strict: bool, verbose: bool) -> None:
    """Print how many policies hold, the config that judged, and the verdicts that do not fail the plan."""
    _heading(f"Policies: {words.states(plan.outcomes())}" + ("" if verbose else _LISTED), console)
    show_line(console, f"policy values: {plan.policy_config}")
    if verbose:
        _list_policies(plan, console)
    for remediation in plan.remediations:
        for change in remediation.changes:
            show_line(console, f"remediated by {remediation.rule}: {words.name_of(remediation.urn)}: {change}", indent="  ")
    failing = set(plan.blocked(strict))
    # The block of ends names the versions that have ended.
    quiet = (
        verdict
        for verdict in plan.verdicts
        if verdict.kind != "not-applicable"
        and verdict not in failing
        and (verbose or (verdict.kind, verdict.level) != (ENDED, "advisory"))
    )
    for line in _verdicts(quiet, verbose):
        show_line(console, line, indent="  ")


def _list_policies(plan: Plan, console: Console) -> None:
    """Print the policies that judged at least one resource, then the names of the others."""
    show_table(
        console,
        ("=policy", "level", "severity", ">judged", ">broken", ">undeterminable", ">excepted", "requirement"),
        [
            (
                outcome.rule,
                outcome.level,
                outcome.severity,
                *map(str, (outcome.judged, outcome.broken, outcome.undeterminable, outcome.excepted)),
                outcome.title,
            )
            for outcome in plan.outcomes()
            if outcome.judged
        ],
    )
    idle, disabled = words.silent(plan.outcomes())
    if idle:
        many = words.counted(len(idle), "policy has", "policies have")
        show_line(console, f"{many} no resource to judge: {', '.join(idle)}", indent="  ")
    if disabled:
        show_line(console, f"disabled for this stack: {', '.join(disabled)}", indent="  ")
