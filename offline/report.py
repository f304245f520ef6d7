"""Prints a plan on the terminal: resources, placement, price, policies, and one line with the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fleet.facts.scheduling import BLOCK_TYPE_TAG
from offline import words
from offline.plan import Plan
from offline.record import Resource

_FEW = 3
"""Siblings of one type that are listed one by one. More siblings become one line with their count."""


def report(plan: Plan, console: Console, strict: bool = False) -> None:
    """Print the whole plan; `strict` as in `Plan.passes`."""
    _head(plan, console)
    if plan.recording is not None:
        console.print(_heading(f"Resources: {len(plan.resources)}"), _tree(plan), sep="\n")
    console.print()
    console.print(_heading("Placement"), _placement(plan), sep="\n")
    for remark in (*map(words.refusal_line, plan.refused), *plan.remarks):
        console.print(Text(f"  ! {remark}", style="yellow"))
    console.print()
    console.print(_heading("Price, USD an hour"), _price(plan), sep="\n")
    for note in words.price_notes(plan.bill):
        console.print(Text(f"  {note}", style="dim"))
    if plan.weeks:
        console.print()
        console.print(_heading(words.week_title(plan)), _weeks(plan), sep="\n")
        console.print(Text(f"  {words.WEEK_NOTE}", style="dim"))
    if plan.recording is not None:
        console.print()
        console.print(_heading("Policies"), Text(f"policy values: {plan.policy_config}"), _policies(plan), sep="\n")
        for line in _said(plan):
            console.print(Text(f"  {line}"))
    console.print()
    _verdict(plan, console, strict)


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _head(plan: Plan, console: Console) -> None:
    console.print(Text(f"gpu-ci plan of stack {plan.config.stack} on {plan.as_of}", style="bold"))
    shown = "pulumi preview" if plan.fleet.deployable else "git diff of the rendered folder"
    console.print(f"This plan proves the settings offline. It is not a diff against deployed resources; use {shown} for that.")
    if plan.secrets:
        console.print(f"Secrets are not read offline; placeholders replace: {', '.join(plan.secrets)}")
    console.print()


# -- resources ---------------------------------------------------------------------------------------------------------


def _tree(plan: Plan) -> Tree:
    children: dict[str, list[Resource]] = {}
    for resource in plan.resources:
        children.setdefault(resource.parent, []).append(resource)
    stack = plan.recording.resources[0] if plan.recording else None
    root = Tree(Text(f"{plan.config.project}-{plan.config.stack}"), guide_style="dim")
    if stack is not None:
        _grow(root, stack.urn, children)
    return root


def _grow(branch: Tree, urn: str, children: Mapping[str, list[Resource]]) -> None:
    mine = children.get(urn, [])
    counts = Counter(resource.type for resource in mine if resource.urn not in children)
    listed: set[str] = set()
    for resource in sorted(mine, key=_order):
        if resource.urn in children:
            _grow(branch.add(_label(resource)), resource.urn, children)
        elif counts[resource.type] <= _FEW:
            branch.add(_label(resource))
        elif resource.type not in listed:
            listed.add(resource.type)
            branch.add(Text.assemble((words.short(resource.type), "cyan"), f" x{counts[resource.type]}"))


def _order(resource: Resource) -> tuple[bool, str, str]:
    """Providers first, then by type and name, because the order of registration is not stable."""
    return not resource.type.startswith("pulumi:"), resource.type, resource.name


def _label(resource: Resource) -> Text:
    details = detail(resource.type, resource.inputs)
    if resource.remote:
        details = f"{details}; opaque: children judged at preview"
    return Text.assemble((words.short(resource.type), "cyan"), f" {resource.name}", (f"  {details}" if details else "", "dim"))


def detail(token: str, inputs: Mapping[str, Any]) -> str:
    """The text after the name of a resource of this type in the tree; "" for most types."""
    how = _DETAILS.get(token, "")
    return how.format_map(inputs) if isinstance(how, str) else how(inputs)


def _node_group(inputs: Mapping[str, object]) -> str:
    scaling = inputs["scalingConfig"]
    sizes = f"{scaling['minSize']}-{scaling['maxSize']} nodes" if isinstance(scaling, Mapping) else ""
    # The type of a capacity block is in the launch template, and in a tag for readers.
    types = inputs["instanceTypes"] if "instanceTypes" in inputs else _object(inputs, "tags").get(BLOCK_TYPE_TAG, "")
    return f"{inputs['capacityType']} {', '.join(map(str, types)) if isinstance(types, list | tuple) else types}, {sizes}"


def _release(inputs: Mapping[str, object]) -> str:
    return f"{str(inputs['chart']).rpartition('/')[2]} {inputs['version']} in {inputs['namespace']}"


def _application(inputs: Mapping[str, object]) -> str:
    spec: Any = inputs["spec"]
    source, where = spec["source"], spec["destination"]["namespace"]
    what = f"{source['chart']} {source['targetRevision']}" if "chart" in source else source["path"]
    return f"{what} in {where}, by ArgoCD"


def _talos_node(inputs: Mapping[str, object]) -> str:
    taints = inputs["nodeTaints"]
    shown = ", ".join(f"{key}={value}" for key, value in taints.items()) if isinstance(taints, Mapping) else ""
    return f"{inputs['instanceType']} at {inputs['address']}, {shown}"


def _node_pool(inputs: Mapping[str, object]) -> str:
    """With the initial size: later the autoscaler sets the size of a GPU pool."""
    flex = _object(inputs, "nodeShapeConfig")
    size = f" {flex['ocpus']:g} OCPU {flex['memoryInGbs']:g} GB" if flex else ""
    config = _object(inputs, "nodeConfigDetails")
    first = _first(config, "placementConfigs")
    bought = "preemptible, " if first.get("preemptibleNodeConfig") else "reserved, " if first.get("capacityReservationId") else ""
    return f"{inputs['nodeShape']}{size}, {bought}starts with {words.counted(int(config['size']), 'node', 'nodes')}"


def _instance_pool(inputs: Mapping[str, object]) -> str:
    places = inputs["placementConfigurations"]
    domains = [place["availabilityDomain"] for place in places] if isinstance(places, list | tuple) else []
    # Without the prefix of the tenancy.
    names = (str(domain).rpartition(":")[2] for domain in domains)
    return f"{words.counted(int(float(str(inputs['size']))), 'machine', 'machines')} in {', '.join(names)}"


def _object(inputs: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An input that is an object; {} if it is not set."""
    value = inputs.get(key)
    return value if isinstance(value, Mapping) else {}


def _first(inputs: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The first object of an input that is a list; {} if there is none."""
    value = inputs.get(key)
    return value[0] if isinstance(value, list | tuple) and value else {}


_DETAILS: Mapping[str, str | Callable[[Mapping[str, object]], str]] = {
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "kubernetes:helm.sh/v3:Release": _release,
    "kubernetes:argoproj.io/v1alpha1:Application": _application,
    "gpu-ci:index:TalosGpuNode": _talos_node,
    "aws:eks/addon:Addon": "{addonVersion}",
    "eks:index:Cluster": "Kubernetes {version}",
    "oci:ContainerEngine/cluster:Cluster": "Kubernetes {kubernetesVersion}",
    "oci:ContainerEngine/nodePool:NodePool": _node_pool,
    "oci:ContainerEngine/addon:Addon": "{addonName}",
    "oci:Core/instanceConfiguration:InstanceConfiguration": "{instanceDetails[launchDetails][shape]}",
    "oci:Core/instancePool:InstancePool": _instance_pool,
}
"""Details by type: a format of the inputs, or a function of them."""


# -- placement ---------------------------------------------------------------------------------------------------------


def _placement(plan: Plan) -> Table:
    table = plain_table(
        "=runner set", "runs-on", "asks", "pool", "a node holds, limited by", ">runners", ">pool holds", ">$/runner-hour"
    )
    for found in plan.placements:
        place = words.place(found, plan.fleet.clusters[found.cluster].region)
        runs_on = ", ".join((found.runner_set, *found.runner.labels))
        table.add_row(place.name, runs_on, place.asks, place.pool, "\n".join(place.holds), place.runners, place.held, place.hour)
    return table


# -- price -------------------------------------------------------------------------------------------------------------


def _price(plan: Plan) -> Table:
    table = plain_table("cluster", "item", "what", ">count", ">each", ">idle", ">worst")
    for line in plan.bill:
        table.add_row(line.cluster, line.item, line.what, words.count(line), words.each(line), str(line.idle), str(line.worst))
    idle, worst = plan.cost
    table.add_section()
    table.add_row("", "total", "", "", "", str(idle), str(worst), style="bold")
    return table


def _weeks(plan: Plan) -> Table:
    table = plain_table(*words.SCHEDULES)
    for found in plan.weeks:
        table.add_row(*words.week(found))
    return table


# -- policies ----------------------------------------------------------------------------------------------------------


def _policies(plan: Plan) -> Table:
    """The policies that judged at least one resource."""
    table = plain_table("policy", "level", "severity", ">judged", ">broken", ">undeterminable", ">excepted", "requirement")
    for found in plan.outcomes():
        if found.judged:
            counts = (str(found.judged), str(found.broken), str(found.undeterminable), str(found.excepted))
            table.add_row(found.rule, found.level, found.severity, *counts, found.title)
    return table


def _said(plan: Plan) -> Iterator[str]:
    """The changes by policies, then their verdicts, then the policies without a resource."""
    for done in plan.remediations:
        yield from (f"remediated by {done.rule}: {words.name_of(done.urn)}: {change}" for change in done.changes)
    for verdict, names in words.alike(verdict for verdict in plan.verdicts if verdict.kind != "not-applicable"):
        yield words.said(verdict, names, _FEW)
    idle, disabled = words.silent(plan.outcomes())
    if idle:
        yield f"{words.counted(len(idle), 'policy has', 'policies have')} no resource to judge: {', '.join(idle)}"
    if disabled:
        yield f"disabled for this stack: {', '.join(disabled)}"


def _verdict(plan: Plan, console: Console, strict: bool) -> None:
    idle, worst = plan.cost
    cost = f"{idle} USD an hour idle, {worst} at worst"
    if plan.recording is None:
        console.print(Text(f"FAILED: {words.unplaceable(plan)}, so no resource was created or judged; {cost}.", style="bold red"))
        return
    facts = f"{len(plan.resources)} resources; policies: {words.states(plan.outcomes())}; {cost}."
    blocked = plan.blocked(strict)
    console.print(Text(words.verdict_line(facts, blocked), style="bold red" if blocked else "bold green"))


def plain_table(*columns: str) -> Table:
    """A plain table. A heading that starts with > aligns its column to the right, one with = keeps it on one line."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        mark, heading = (column[0], column[1:]) if column[0] in ">=" else ("", column)
        table.add_column(heading, justify="right" if mark == ">" else "left", overflow="fold", no_wrap=mark == "=")
    return table
