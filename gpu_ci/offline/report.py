"""Prints a plan on the terminal: first and last the result and what fails, between them placement, price, remarks, the rest."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from fleet.facts.groups import grouped
from fleet.facts.scheduling import BLOCK_TYPE_TAG
from fleet.facts.tables import beside
from gpu_ci.offline import words
from gpu_ci.offline.base import Base
from gpu_ci.offline.changes import Pair, counts_line, headline
from gpu_ci.offline.compare import Comparison, difference
from gpu_ci.offline.judge import ENDED, Verdict
from gpu_ci.offline.layout import one_line, show_line, show_packed, show_table
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.words import Place

_FEW = 3
"""Siblings of one type that are listed one by one. More siblings become one line with their count."""
_PLACEMENT = ("=runner set", "runs-on", "asks", "pool", "a node holds, limited by", ">runners", ">pool holds", ">$/runner-hour")


def report(
    plan: Plan, console: Console, strict: bool = False, verbose: bool = False, base: Base | None = None, *, quiet: bool = False
) -> None:
    """Print the plan, with the changes from the base if there is one.

    What fails and the result are at the top and again at the end, because a reader of a terminal or of a log sees the end first.
    `strict` as in `Plan.passes`; `verbose` lists the resources and every policy; `quiet` prints only what fails and the result.
    """
    if not quiet:
        _whole(plan, console, strict, verbose, base)
    _failures(plan, console, strict, verbose)
    _result(plan, console, strict)


def _whole(plan: Plan, console: Console, strict: bool, verbose: bool, base: Base | None) -> None:
    """Print all but the last lines."""
    console.print(Text(f"gpu-ci plan of stack {plan.config.stack} on {plan.as_of}", style="bold"))
    _result(plan, console, strict)
    _failures(plan, console, strict, verbose)
    console.print()
    _about(plan, console)
    _placement(plan, console)
    _price(plan, console)
    if base is not None:
        _heading("Before → after", console)
        for line in changed_lines(plan, base):
            show_line(console, line, indent="  ")
    _notes(plan, console, verbose)
    if plan.recording is not None:
        listed = "" if verbose else " (-v lists them)"
        _heading(f"Resources: {len(plan.resources)}{listed}", console)
        if verbose:
            console.print(_tree(plan, plan.recording.resources[0].urn), crop=False)
        _heading(f"Policies: {words.states(plan.outcomes())}{listed}", console)
        _policies(plan, console, strict, verbose)
    console.print()


def _heading(text: str, console: Console) -> None:
    console.print()
    show_line(console, text, "bold")


# -- the result --------------------------------------------------------------------------------------------------------


def _result(plan: Plan, console: Console, strict: bool) -> None:
    color = {"ok": "green", "failed": "red"}.get(words.state(plan, strict)[0], "yellow")
    show_packed(console, words.result(plan, strict), f"bold {color}")


def _failures(plan: Plan, console: Console, strict: bool, verbose: bool) -> None:
    """Print what fails the plan or cannot work, a line for each; in a pipe it is not wrapped, so that a log can be searched."""
    unplaced = [str(words.refusal(plan.config, refused)) for refused in plan.refused]
    for line in (*unplaced, *_verdicts(plan.blocked(strict), verbose), *words.agreeing(plan)):
        show_line(console, line, "red", indent="  ", whole=True)
    for remark in plan.impossible:
        show_line(console, f"cannot work: {remark}", "red" if remark in plan.written else "yellow", indent="  ", whole=True)


def _verdicts(verdicts: Iterable[Verdict], verbose: bool) -> Iterator[str]:
    """A line for each group of equal verdicts, with the names of the first resources; `verbose` names all."""
    yield from (words.said(verdict, names, len(names) if verbose else _FEW) for verdict, names in words.alike(verdicts))


def _notes(plan: Plan, console: Console, verbose: bool) -> None:
    """Print what ends and the remarks; without `verbose` the first of them."""
    lines = words.notes(plan, plan.remarks)
    first = lines if verbose else lines[: words.MOST_NOTES]
    if lines:
        _heading("Ends and remarks (! to do, $ money, - good to know)", console)
    for line in first:
        mark = words.mark(line)
        show_line(console, f"{mark} {line}", "yellow" if mark == "!" else "", indent="  ")
    if more := len(lines) - len(first):
        show_line(console, f"{more} more: -v", indent="  ")


def _about(plan: Plan, console: Console) -> None:
    """Print what the plan does not prove."""
    command = "pulumi preview" if plan.fleet.deployable else "git diff of the rendered folder"
    note = f"This plan proves the settings offline. It is not a diff against deployed resources; use {command} for that."
    show_line(console, note)
    if plan.secrets:
        show_line(console, f"Secrets are not read offline; placeholders replace: {', '.join(plan.secrets)}")


# -- resources ---------------------------------------------------------------------------------------------------------


def _tree(plan: Plan, root: str) -> Tree:
    # Providers first, then by type and name, because the order of registration is not stable.
    ordered = sorted(plan.resources, key=lambda entry: (not entry.type.startswith("pulumi:"), entry.type, entry.name))
    tree = Tree(f"{plan.config.project}-{plan.config.stack}")
    _grow(tree, root, grouped((resource.parent, resource) for resource in ordered))
    return tree


def _grow(tree: Tree, urn: str, children: Mapping[str, list[Resource]]) -> None:
    """Add what is below a resource."""
    siblings = children.get(urn, [])
    counts = Counter(resource.type for resource in siblings if resource.urn not in children)
    branches: dict[str, str] = {}
    for resource in siblings:
        alone = resource.urn in children or counts[resource.type] <= _FEW
        branches[_label(resource) if alone else f"{words.short(resource.type)} x{counts[resource.type]}"] = resource.urn
    for label, below in branches.items():
        # A name that is longer than the terminal is wide stays whole.
        _grow(tree.add(Text(label, overflow="ignore")), below, children)


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


_DETAILS: dict[str, str] = beside(__file__, "details.toml")
"""Details by type, as formats of the inputs."""


# -- placement and price -----------------------------------------------------------------------------------------------


def _placement(plan: Plan, console: Console) -> None:
    _heading("Placement", console)
    rows = []
    for place in words.places(plan):
        holds = "\n".join(place.holds)
        rows.append((place.name, place.runs_on, place.asks, place.pool, holds, place.runners, place.held, place.hour))
    show_table(console, _PLACEMENT, rows)


def _price(plan: Plan, console: Console) -> None:
    _heading("Price, USD an hour", console)
    columns = ("=cluster", "=item", "what", ">count", ">each", ">idle", ">worst")
    show_table(console, columns, list(map(words.bill, plan.bill)), ("", "total", "", "", "", *map(str, plan.cost)))
    for note in words.price_notes(plan.bill):
        show_line(console, note, "dim", indent="  ")
    if plan.weeks:
        _heading(words.week_title(plan), console)
        show_table(console, (f"={words.SCHEDULES[0]}", *words.SCHEDULES[1:]), list(map(words.week, plan.weeks)))
        show_line(console, words.WEEK_NOTE, "dim", indent="  ")


# -- policies ----------------------------------------------------------------------------------------------------------


def _policies(plan: Plan, console: Console, strict: bool, verbose: bool) -> None:
    """Print the config that judged, and the verdicts that do not fail the plan."""
    show_line(console, f"policy values: {plan.policy_config}")
    if unread := words.unread(plan, len(plan.types) if verbose else _FEW):
        show_line(console, unread)
    if verbose:
        _list_policies(plan, console)
    for remediation in plan.remediations:
        for change in remediation.changes:
            show_line(console, f"remediated by {remediation.rule}: {words.name_of(remediation.urn)}: {change}", indent="  ")
    told = set(plan.blocked(strict))
    if not verbose:  # the block of ends names the versions that have ended
        told |= {verdict for verdict in plan.verdicts if (verdict.kind, verdict.level) == (ENDED, "advisory")}
    quiet = (verdict for verdict in plan.verdicts if verdict.kind != "not-applicable" and verdict not in told)
    for line in _verdicts(quiet, verbose):
        show_line(console, line, indent="  ")


def _list_policies(plan: Plan, console: Console) -> None:
    """Print the policies that judged at least one resource, then the names of the others."""
    columns = ("=policy", "level", "severity", ">judged", ">broken", ">undeterminable", ">excepted", "requirement")
    attributes = ("rule", "level", "severity", "judged", "broken", "undeterminable", "excepted", "title")
    outcomes = plan.outcomes()
    show_table(console, columns, [[str(getattr(row, name)) for name in attributes] for row in outcomes if row.judged])
    idle = [outcome.rule for outcome in outcomes if not outcome.judged and outcome.state != "disabled"]
    disabled = [outcome.rule for outcome in outcomes if not outcome.judged and outcome.state == "disabled"]
    if idle:
        many = words.counted(len(idle), "policy has", "policies have")
        show_line(console, f"{many} no resource to judge: {', '.join(idle)}", indent="  ")
    if disabled:
        show_line(console, f"disabled for this stack: {', '.join(disabled)}", indent="  ")


# -- the changes from a base -------------------------------------------------------------------------------------------


def changed_lines(plan: Plan, base: Base) -> Iterator[str]:
    """The changes from the base to the plan, one line for each, or the reason why the base has no plan."""
    if (comparison := base.compared(plan)) is not None:
        yield from map(one_line, _changes(comparison))
    else:
        yield one_line(f"{base.reason}. This is only the plan after the change.")


def _changes(comparison: Comparison) -> Iterator[str]:
    yield from _effects(comparison)
    for setting in comparison.settings:
        entry = f"{setting.kind} {setting.name}".strip()
        if setting.state != "changed":
            yield f"{setting.state} {entry}"
            continue
        yield from (f"{entry}: {path}: {_arrow(value)}" for path, value in setting.values.items())
    yield from comparison.notes
    yield from comparison.arc_upgrade
    for name, pair in comparison.places.items():
        if pair.state == "changed":
            yield f"placement of {name}: {'; '.join(_place(pair))}"
    for (cluster, item), line in comparison.lines.items():
        if line.changed:
            sides = [(str(side.idle), str(side.worst)) if side else (None, None) for side in (line.before, line.after)]
            idle, worst = (Pair(*costs) for costs in zip(*sides, strict=True))
            yield f"price of {cluster}/{item}: idle {_arrow(idle)}, worst {_arrow(worst)}"
    yield from _totals(comparison)
    for word, verdicts in (("newly broken", comparison.newly_broken), ("fixed", comparison.fixed)):
        yield from dict.fromkeys(f"{word}: {verdict.rule}: {words.name_of(verdict.urn)}" for verdict in verdicts)
    for kind in comparison.resources:
        counts = (("added", kind.added), ("removed", kind.removed), ("changed", tuple(kind.changed)))
        yield from (f"{words.short(kind.type)}: {len(names)} {word}: {', '.join(names)}" for word, names in counts if names)


def effect_lines(comparison: Comparison) -> Iterator[str]:
    """What `pulumi up` of a change does to running jobs and to how many resources, and the price before and after."""
    yield from map(one_line, (*_effects(comparison), *_totals(comparison)))


def _effects(comparison: Comparison) -> Iterator[str]:
    if comparison.nothing:
        yield "the change has no effect"
    elif comparison.changes:
        yield from (change.what for change in comparison.changes if change.is_told)
        yield f"{headline(comparison.changes)}: {counts_line(comparison.changes)}"


def _totals(comparison: Comparison) -> Iterator[str]:
    for word, (before, after) in zip(("idle", "worst"), comparison.costs, strict=True):
        yield f"total at {word}: {before} → {after} USD an hour ({difference(before, after)})"


def _place(pair: Pair[Place]) -> Iterator[str]:
    labels = {"held": "pool holds", "hour": "USD a runner-hour", "holds": "a node holds"}
    for name in (part.name for part in fields(Place) if part.compare):
        values = [getattr(side, name) for side in (pair.before, pair.after)]
        before, after = (", ".join(value) if isinstance(value, tuple) else value for value in values)
        if before != after:
            yield f"{labels.get(name, name)} {before or 'nothing'} → {after or 'nothing'}"


def _arrow(pair: Pair[str]) -> str:
    return f"{'not set' if pair.before is None else pair.before} → {'not set' if pair.after is None else pair.after}"
