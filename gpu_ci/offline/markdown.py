"""Writes a plan as GitHub Markdown for a pull request comment or a job summary. The most important parts come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from fleet.facts.pricing import Line, Money
from fleet.facts.remark import CANNOT_WORK
from gpu_ci.offline.base import Base
from gpu_ci.offline.compare import Comparison, Kind, Pair, Setting, difference
from gpu_ci.offline.gfm import code, fenced, fold, is_folded, table, text
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.remedies import Remediation
from gpu_ci.offline.words import (
    MOST_NOTES,
    SCHEDULES,
    WEEK_NOTE,
    Place,
    alike,
    counted,
    each,
    listed,
    name_of,
    notes,
    place,
    price_notes,
    promises,
    short,
    state,
    states,
    week,
    week_title,
)
from gpu_ci.offline.words import count as count_of

T = TypeVar("T")
_FEW = 5
"""Names that are listed one by one. Of more names the number is shown."""
_MANY = 40
"""The most rows of a table and lines of a list; the plan on the terminal has all."""


def markdown(plan: Plan, base: Base | None = None, strict: bool = False) -> str:
    """The plan of one stack, with the changes from the base if there is one. Folded sections come last."""
    comparison = Comparison(base.plan, plan, base.arc) if base is not None and base.plan is not None else None
    sections = sorted(_sections(plan, base, comparison, strict), key=is_folded)
    return "\n\n".join(sections) + "\n"


def wrong_input(stack: str, error: Exception, root: Path) -> str:
    """The text for a stack whose input is wrong. Paths are relative to `root`."""
    lines = str(error).replace(f"{root}/", "").splitlines()
    return f"## ❌ {code(stack)}: the input is wrong\n\nNothing was planned. Fix:\n\n{_bullets(lines)}\n"


def _sections(plan: Plan, base: Base | None, comparison: Comparison | None, strict: bool) -> Iterator[str]:
    yield f"## {_verdict(plan, comparison, strict)}"
    yield _money(plan, comparison)
    if wrong := [f"cannot work: {remark}" for remark in plan.impossible if remark not in plan.written]:
        yield _bullets(wrong)
    yield from _remarks(plan, comparison)
    if base is not None and base.plan is None:
        yield f"Before → after: {text(base.reason)}. This is only the plan after the change."
    if faults := list(_faults(plan, comparison, strict)):
        yield _table(("what fails", "where", "why"), faults)
    if comparison is None:
        yield from _whole(plan)
    else:
        yield from _changes(comparison)
    yield from _exceptions(plan, comparison, strict)
    yield _policies(plan)
    if comparison is not None and base is not None:
        yield (
            f"Before is the base's stack file under the code and the policy config of this change: {text(base.judged)}."
            if base.judged
            else "Before is the base's stack file and policy config, under the code of this change."
        )


# -- head --------------------------------------------------------------------------------------------------------------


def _verdict(plan: Plan, comparison: Comparison | None, strict: bool) -> str:
    stack = code(plan.config.stack)
    word, why = state(plan, strict)
    if word != "ok":
        titles = {
            "failed": f"❌ {stack}",
            CANNOT_WORK: f"⛔ {stack}: cannot work",
            "placed": f"❔ {stack}: the placement holds",
            "up-refused": f"⛔ {stack}: `pulumi up` is refused",
        }
        return ": ".join((titles[word], *([why] if why else [])))
    return f"✅ {stack}: " + (
        "every proof holds, the change has no effect" if comparison is not None and comparison.nothing else "every proof holds"
    )


def _money(plan: Plan, comparison: Comparison | None) -> str:
    """The money of a plan and the policies that were not judged; with a comparison the money before and after."""
    resources = [f"{len(plan.resources)} resources"] if plan.recording is not None else []
    if comparison is None:
        return " · ".join((*resources, *promises(plan)))
    moves = (_moved(*comparison.idle), _moved(*comparison.worst))
    return " · ".join((*resources, f"USD an hour: {moves[0]} idle", f"{moves[1]} at worst", *promises(plan, money=False)))


def _moved(before: Money, after: Money) -> str:
    """0.348 → **0.696** (+0.348)."""
    is_equal = str(before) == str(after)
    return f"**{after}** (unchanged)" if is_equal else f"{_arrow(before, after)} ({difference(before, after)})"


def _faults(plan: Plan, comparison: Comparison | None, strict: bool) -> Iterator[Sequence[str]]:
    """Rows of (what fails, where, why)."""
    for refused in plan.refused:
        yield "placement", code(f"{refused.cluster}/{refused.workload}"), text(refused.error)
    for remark in plan.written:
        yield "cannot work", code(remark.parts[0]), text(remark)
    yield from _verdicts(plan.blocked(strict), comparison, lambda verdict: verdict.kind)


# -- before and after --------------------------------------------------------------------------------------------------


def _changes(comparison: Comparison) -> Iterator[str]:
    if comparison.ended_jobs:
        yield "### ⚠️ `pulumi up` ends running jobs\n\n" + _bullets(comparison.ended_jobs)
    if comparison.arc_upgrade:
        head = "### Before `pulumi up`: another minor of Actions Runner Controller"
        yield f"{head}\n\n{fenced(''.join(f'{line}{chr(10)}' for line in comparison.arc_upgrade), 'sh')}"
    if comparison.settings:
        rows = [row for setting in comparison.settings for row in _setting(setting)]
        yield "### What changes\n\n" + _table(("entry", "setting", "before", "after"), rows)
    if any(pair.changed for pair in comparison.lines.values()):
        yield "### Price, USD an hour\n\n" + _price_change(comparison)
    if moved := [pair for pair in comparison.places.values() if pair.changed]:
        yield "### Placement\n\n" + _table(_PLACEMENT, map(_moved_place, moved))
    yield from _resource_changes(comparison)
    if comparison.fixed:
        fixed = _verdicts(comparison.fixed, None, lambda _: "fixed")
        yield "### Fixed\n\n" + _table(("policy", "where", "what was wrong"), fixed)


def _setting(setting: Setting) -> Iterator[Sequence[str]]:
    entry = f"{setting.kind} {code(setting.name)}" if setting.name else setting.kind
    if setting.state != "changed":
        sides = {"added": ("", f"**added**: {_listed(setting)}"), "removed": (f"**removed**: {_listed(setting)}", "")}
        yield entry, "", *sides[setting.state]
        return
    for path, value in setting.values.items():
        yield entry, code(path), *("not set" if side is None else code(side) for side in (value.before, value.after))


def _listed(setting: Setting) -> str:
    values = (f"{path}: {value.after if value.before is None else value.before}" for path, value in setting.values.items())
    return code(", ".join(values))


def _moved_place(pair: Pair[Place]) -> Sequence[str]:
    if pair.before is None or pair.after is None:
        cells = _placed(pair.held)
        return [f"{cells[0]} **{pair.state}**", *cells[1:]]
    old, new = _placed(pair.before), _placed(pair.after)
    return [new[0], *(cell if was == cell else f"{was} → **{cell}**" for was, cell in zip(old[1:], new[1:], strict=True))]


def _price_change(comparison: Comparison) -> str:
    rows = [_line_change(pair) for pair in comparison.lines.values() if pair.changed]
    sums = [["**total**", "", _arrow(*comparison.idle), _arrow(*comparison.worst), f"**{difference(*comparison.worst)}**"]]
    if unchanged := [pair.held for pair in comparison.lines.values() if not pair.changed]:
        idle, worst = (sum((getattr(line, side) for line in unchanged), Money()) for side in ("idle", "worst"))
        sums.insert(0, [f"{counted(len(unchanged), 'item', 'items')} unchanged", "", str(idle), str(worst), "±0"])
    bounded = any(money.at_most for money in (*comparison.idle, *comparison.worst))
    note = "\n\n≤ is a bound, because not every price is known: the difference is that of the bounds." if bounded else ""
    return _table(("item", "what", ">idle", ">worst", ">more at worst"), rows, sums) + note


def _line_change(pair: Pair[Line]) -> Sequence[str]:
    old, new = pair.before, pair.after
    text_of = _arrow_text(*(f"{count_of(line)} x {line.what}" if line else "" for line in (old, new)))
    idle = [line.idle if line else Money() for line in (old, new)]
    worst = [line.worst if line else Money() for line in (old, new)]
    state = "" if pair.state == "changed" else f" **{pair.state}**"
    item = f"{code(pair.held.cluster)} {text(pair.held.item)}{state}"
    return [item, text_of, _arrow(*idle), _arrow(*worst), difference(*worst)]


def _arrow(before: Money, after: Money) -> str:
    return str(after) if str(before) == str(after) else f"{before} → **{after}**"


def _arrow_text(before: str, after: str) -> str:
    if not before or not after or before == after:
        return text(after or before)
    return f"{text(before)} → {text(after)}"


def _resource_changes(comparison: Comparison) -> Iterator[str]:
    kinds = comparison.resources
    if not comparison.judged:
        yield "Resources and policies are not compared: one side has no resources, because a runner set cannot be placed."
        return
    sums = [sum(len(getattr(kind, side)) for kind in kinds) for side in ("added", "removed", "changed")]
    if any(sums):
        summary = f"Resources: {sums[0]} added, {sums[1]} removed, {sums[2]} changed"
        yield fold(summary, table(("type", "what", "which"), [row for kind in kinds for row in _kind(kind)]))


def _kind(kind: Kind) -> Iterator[Sequence[str]]:
    for how, names in (("added", kind.added), ("removed", kind.removed)):
        if names:
            yield code(short(kind.type)), f"{len(names)} {how}", _names(map(code, names))
    if kind.changed:
        changed = (f"{code(name)} ({_names(map(code, paths))})" for name, paths in kind.changed.items())
        yield code(short(kind.type)), f"{len(kind.changed)} changed", _names(changed)


def _names(names: Iterable[str]) -> str:
    return listed(names, _FEW)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], sums: Iterable[Sequence[str]] = ()) -> str:
    """A table of the first rows, and the rows with the sums of all rows."""
    all_rows = list(rows)
    return table(columns, [*all_rows[:_MANY], *sums]) + _more(all_rows)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {text(line)}" for line in lines[:_MANY]) + _more(lines)


def _more(rows: Sequence[object]) -> str:
    return f"\n\nAnd {len(rows) - _MANY} more." if len(rows) > _MANY else ""


# -- the plan by itself ------------------------------------------------------------------------------------------------

_PLACEMENT = ("runner set", "asks", "pool", "a node holds, limited by", ">runners", ">pool holds", ">USD a runner-hour")


def _whole(plan: Plan) -> Iterator[str]:
    regions = {name: cluster.region for name, cluster in plan.fleet.clusters_by_name()}
    places = (place(placement, regions[placement.cluster]) for placement in plan.placements)
    yield "### Placement\n\n" + _table(_PLACEMENT, map(_placed, places))
    yield "### Price, USD an hour\n\n" + _bill(plan)
    if plan.weeks:
        rows = ([code(name), *cells] for name, *cells in map(week, plan.weeks))
        yield f"### {week_title(plan)}\n\n{_table(SCHEDULES, rows)}\n\n{WEEK_NOTE}"


def _placed(where: Place) -> Sequence[str]:
    fits = "<br>".join(map(text, where.holds))
    return [code(where.name), text(where.asks), code(where.pool), fits, where.runners, where.held, where.hour]


def _bill(plan: Plan) -> str:
    rows = [
        [f"{code(line.cluster)} {text(line.item)}", text(line.what), count_of(line), each(line), str(line.idle), str(line.worst)]
        for line in plan.bill
    ]
    idle, worst = plan.cost
    total = ["**total**", "", "", "", f"**{idle}**", f"**{worst}**"]
    bill = _table(("item", "what", ">count", ">each", ">idle", ">worst"), rows, [total])
    return bill + "\n\n" + "\n".join(f"- {text(note)}" for note in price_notes(plan.bill))


# -- policies ----------------------------------------------------------------------------------------------------------


def _exceptions(plan: Plan, comparison: Comparison | None, strict: bool) -> Iterator[str]:
    """Verdicts and remediations that do not fail the plan; with a comparison only new ones. Many are folded."""
    blocked = set(plan.blocked(strict))
    standing = comparison.new_verdicts if comparison is not None else plan.verdicts
    remediations = comparison.new_remediations if comparison is not None else plan.remediations
    unblocked = [verdict for verdict in standing if verdict.kind != "not-applicable" and verdict not in blocked]
    if changes := [*_verdicts(unblocked, None, _standing), *map(_remediation, remediations)]:
        rows = _table(("policy", "where", "what"), changes)
        yield fold(f"{_NOT_SIMPLY}: {len(changes)}", rows) if len(changes) > _FEW else f"### {_NOT_SIMPLY}\n\n{rows}"


_NOT_SIMPLY = "Advisory, excepted, remediated or undeterminable"


def _remediation(remediation: Remediation) -> Sequence[str]:
    return [f"{code(remediation.rule)} remediated", code(name_of(remediation.urn)), text("; ".join(remediation.changes))]


def _standing(verdict: Verdict) -> str:
    return verdict.level if verdict.kind == "violation" else verdict.kind


def _verdicts(
    verdicts: Iterable[Verdict], comparison: Comparison | None, word: Callable[[Verdict], str]
) -> Iterator[Sequence[str]]:
    """Rows of (policy, resources, message), new ones first. Equal messages of one policy are one row."""
    fresh, old = _parted(verdicts, comparison.new_verdicts if comparison is not None else ())
    for new, group in ((" **new**", fresh), ("", old)):
        for verdict, names in alike(group):
            yield [f"{code(verdict.rule)} {word(verdict)}{new}", _names(map(code, names)), text(verdict.message)]


def _policies(plan: Plan) -> str:
    outcomes = plan.outcomes()
    judged = states(outcomes) if plan.recording is not None else f"{len(outcomes)}, none judged"
    return f"Policies: {judged}. Policy values: {text(plan.policy_config)}."


# -- remarks -----------------------------------------------------------------------------------------------------------


def _remarks(plan: Plan, comparison: Comparison | None) -> Iterator[str]:
    """A block of ends and new remarks; the rest of them is folded."""
    new = comparison.new_remarks if comparison is not None else plan.remarks
    lines = notes(plan, new)
    if lines:
        yield _bullets(lines[:MOST_NOTES])
    if more := lines[MOST_NOTES:]:
        yield fold(f"More ends and remarks: {len(more)}", _bullets(more))


def _parted(items: Iterable[T], new: Iterable[T]) -> tuple[list[T], list[T]]:
    """(the items that are new, the others), in their order."""
    fresh, all_items = set(new), list(items)
    return [item for item in all_items if item in fresh], [item for item in all_items if item not in fresh]
