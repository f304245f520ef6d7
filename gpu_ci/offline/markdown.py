"""Writes a plan as GitHub Markdown for a pull request comment or a job summary. The most important parts come first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fleet.facts.pricing import Line, Money
from fleet.facts.tables import beside
from gpu_ci.offline import words
from gpu_ci.offline.base import Base
from gpu_ci.offline.changes import Change, Edit, Pair, counts_line, headline
from gpu_ci.offline.compare import Comparison, Kind, difference
from gpu_ci.offline.gfm import code, fenced, fold, is_folded, table, text
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.words import Place

_FEW = 5
"""Names that are listed one by one. Of more names the number is shown."""
_TITLES: Mapping[str, str] = beside(__file__, "titles.toml")
_MANY = 40
"""The most rows of a table and lines of a list; the plan on the terminal has all."""


def markdown(plan: Plan, base: Base | None = None, strict: bool = False) -> str:
    """The plan of one stack, with the changes from the base if there is one. Folded sections come last."""
    sections = sorted(filter(None, _sections(plan, base, strict)), key=is_folded)
    return "\n\n".join(sections) + "\n"


def wrong_input(stack: str, error: Exception, root: Path) -> str:
    """The text for a stack whose input is wrong. Paths are relative to `root`."""
    lines = str(error).replace(f"{root}/", "").splitlines()
    return f"## ❌ {code(stack)}: the input is wrong\n\nNothing was planned. Fix:\n\n{_bullets(lines)}\n"


def _sections(plan: Plan, base: Base | None, strict: bool) -> Iterator[str]:
    """The sections; a part without a line is empty."""
    comparison = base.compared(plan) if base is not None else None
    yield f"## {_verdict(plan, comparison, strict)}"
    yield from _blast(comparison.changes if comparison is not None else ())
    yield _money(plan, comparison)
    yield _bullets([f"cannot work: {remark}" for remark in plan.impossible if remark not in plan.written])
    notes = words.notes(plan, comparison.new_remarks if comparison is not None else plan.remarks)
    yield _bullets(notes[: words.MOST_NOTES])
    if more := notes[words.MOST_NOTES :]:
        yield fold(f"More ends and remarks: {len(more)}", _bullets(more))
    if base is not None and base.plan is None:
        yield f"Before → after: {text(base.reason)}. This is only the plan after the change."
    if faults := list(_faults(plan, comparison, strict)):
        yield _table(("what fails", "where", "why"), faults)
    yield _bullets(words.agreeing(plan))
    yield from _whole(plan) if comparison is None else _changes(comparison)
    yield _exceptions(plan, comparison, strict)
    outcomes = plan.outcomes()
    judged = words.states(outcomes) if plan.recording is not None else f"{len(outcomes)}, none judged"
    unread = text(words.unread(plan))
    yield f"Policies: {judged}. Policy values: {text(plan.policy_config)}.{f' {unread}.' if unread else ''}"
    if comparison is not None and base is not None:
        other = f"stack file under the code and the policy config of this change: {text(base.judged)}"
        yield f"Before is the base's {other if base.judged else 'stack file and policy config, under the code of this change'}."


# -- head --------------------------------------------------------------------------------------------------------------


def _verdict(plan: Plan, comparison: Comparison | None, strict: bool) -> str:
    stack = code(plan.config.stack)
    no_effect = ", the change has no effect" if comparison is not None and comparison.nothing else ""
    word, why = words.state(plan, strict)
    return ": ".join(filter(None, (_TITLES[word].format(stack=stack, no_effect=no_effect), why)))


def _money(plan: Plan, comparison: Comparison | None) -> str:
    """The money of a plan and the policies that were not judged; with a comparison the money before and after."""
    resources = [f"{len(plan.resources)} resources"] if plan.recording is not None else []
    if comparison is None:
        return " · ".join((*resources, *words.promises(plan)))
    idle, worst = (_moved(*cost) for cost in comparison.costs)
    return " · ".join((*resources, f"USD an hour: {idle} idle", f"{worst} at worst", *words.promises(plan, money=False)))


def _moved(before: Money, after: Money) -> str:
    """0.348 → **0.696** (+0.348)."""
    return f"**{after}** (unchanged)" if str(before) == str(after) else f"{_arrow(before, after)} ({difference(before, after)})"


def _arrow(before: object, after: object) -> str:
    old, new = str(before), str(after)
    return new if old == new else f"{old} → **{new}**"


def _faults(plan: Plan, comparison: Comparison | None, strict: bool) -> Iterator[Sequence[str]]:
    """Rows of (what fails, where, why)."""
    yield from (("placement", code(f"{refused.cluster}/{refused.workload}"), text(refused.error)) for refused in plan.refused)
    yield from (("cannot work", code(remark.parts[0]), text(remark)) for remark in plan.written)
    yield from _verdicts(plan.blocked(strict), lambda verdict: verdict.kind, comparison)


def _blast(changes: Sequence[Change]) -> Iterator[str]:
    """What the change does to what exists: before all else, so that a cut comment has it."""
    if changes:
        title, loud = headline(changes), any(change.is_loud for change in changes)
        yield f"### {'⚠️ ' if loud else ''}{title[:1].upper()}{title[1:]}"
        yield _bullets([change.what for change in changes if change.is_told])
        yield f"Resources by what happens to them: {counts_line(changes)}."


# -- before and after --------------------------------------------------------------------------------------------------


def _changes(comparison: Comparison) -> Iterator[str]:
    if comparison.arc_upgrade:
        head = "### Before `pulumi up`: another minor of Actions Runner Controller"
        yield f"{head}\n\n{fenced(''.join(f'{line}{chr(10)}' for line in comparison.arc_upgrade), 'sh')}"
    settings = [row for setting in comparison.settings for row in _setting(setting)]
    yield _titled("What changes", ("entry", "setting", "before", "after"), settings)
    yield _price_change(comparison)
    yield _titled("Placement", _PLACEMENT, [_moved_place(pair) for pair in comparison.places.values() if pair.changed])
    if comparison.judged:
        kinds = comparison.resources
        counts = (f"{sum(len(getattr(kind, side)) for kind in kinds)} {side}" for side in ("added", "removed", "changed"))
        rows = [row for kind in kinds for row in _kind(kind)]
        yield fold(f"Resources: {', '.join(counts)}", table(("type", "what", "which"), rows)) if rows else ""
    else:
        yield "Resources and policies are not compared: one side has no resources, because a runner set cannot be placed."
    yield _titled("Fixed", ("policy", "where", "what was wrong"), list(_verdicts(comparison.fixed, lambda _: "fixed")))


def _setting(setting: Edit) -> Iterator[Sequence[str]]:
    entry = f"{setting.kind} {code(setting.name)}" if setting.name else setting.kind
    if setting.state == "changed":
        for path, value in setting.values.items():
            yield entry, code(path), *("not set" if side is None else code(side) for side in (value.before, value.after))
        return
    values = code(", ".join(f"{path}: {value.held}" for path, value in setting.values.items()))
    cell = f"**{setting.state}**: {values}"
    yield entry, "", *(("", cell) if setting.state == "added" else (cell, ""))


def _moved_place(pair: Pair[Place]) -> Sequence[str]:
    name, *cells = _placed(pair.held)
    if pair.before is None or pair.after is None:
        return f"{name} **{pair.state}**", *cells
    return name, *map(_arrow, _placed(pair.before)[1:], cells)


def _price_change(comparison: Comparison) -> str:
    lines = comparison.lines.values()
    if not (rows := [_line_change(pair) for pair in lines if pair.changed]):
        return ""
    costs = comparison.costs
    sums = [("**total**", "", *(_arrow(*cost) for cost in costs), f"**{difference(*costs[1])}**")]
    if unchanged := [pair.held for pair in lines if not pair.changed]:
        same = (str(sum((getattr(line, side) for line in unchanged), Money())) for side in ("idle", "worst"))
        sums.insert(0, (f"{words.counted(len(unchanged), 'item', 'items')} unchanged", "", *same, "±0"))
    bounded = any(money.at_most for cost in costs for money in cost)
    note = "\n\n≤ is a bound, because not every price is known: the difference is that of the bounds." if bounded else ""
    return _titled("Price, USD an hour", ("item", "what", ">idle", ">worst", ">more at worst"), rows, sums) + note


def _line_change(pair: Pair[Line]) -> Sequence[str]:
    sides = (pair.before, pair.after)
    texts = dict.fromkeys(text(f"{words.count(line)} x {line.what}") for line in sides if line)
    idle = [line.idle if line else Money() for line in sides]
    worst = [line.worst if line else Money() for line in sides]
    state = "" if pair.state == "changed" else f" **{pair.state}**"
    item = f"{code(pair.held.cluster)} {text(pair.held.item)}{state}"
    return item, " → ".join(texts), _arrow(*idle), _arrow(*worst), difference(*worst)


def _kind(kind: Kind) -> Iterator[Sequence[str]]:
    changed = [f"{code(name)} ({_names(map(code, paths))})" for name, paths in kind.changed.items()]
    for how, names in (("added", map(code, kind.added)), ("removed", map(code, kind.removed)), ("changed", changed)):
        if cells := list(names):
            yield code(words.short(kind.type)), f"{len(cells)} {how}", _names(cells)


def _names(names: Iterable[str]) -> str:
    return words.listed(names, _FEW)


def _titled(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], sums: Sequence[Sequence[str]] = ()) -> str:
    """A table with a title; empty without rows."""
    return f"### {title}\n\n{_table(columns, rows, sums)}" if rows else ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], sums: Sequence[Sequence[str]] = ()) -> str:
    """A table of the first rows, and the rows with the sums of all rows."""
    return table(columns, [*rows[:_MANY], *sums]) + _more(rows)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {text(line)}" for line in lines[:_MANY]) + _more(lines)


def _more(rows: Sequence[object]) -> str:
    return f"\n\nAnd {len(rows) - _MANY} more." if len(rows) > _MANY else ""


# -- the plan by itself ------------------------------------------------------------------------------------------------

_PLACEMENT = ("runner set", "asks", "pool", "a node holds, limited by", ">runners", ">pool holds", ">USD a runner-hour")


def _whole(plan: Plan) -> Iterator[str]:
    yield "### Placement\n\n" + _table(_PLACEMENT, list(map(_placed, words.places(plan))))
    rows = [(f"{code(cluster)} {text(item)}", text(what), *cells) for cluster, item, what, *cells in map(words.bill, plan.bill)]
    total = ("**total**", "", "", "", *(f"**{cost}**" for cost in plan.cost))
    bill = _table(("item", "what", ">count", ">each", ">idle", ">worst"), rows, [total])
    yield f"### Price, USD an hour\n\n{bill}\n\n{_bullets([*words.price_notes(plan.bill)])}"
    if plan.weeks:
        weeks = [(code(name), *cells) for name, *cells in map(words.week, plan.weeks)]
        yield f"### {words.week_title(plan)}\n\n{_table(words.SCHEDULES, weeks)}\n\n{words.WEEK_NOTE}"


def _placed(where: Place) -> Sequence[str]:
    fits = "<br>".join(map(text, where.holds))
    return code(where.name), text(where.asks), code(where.pool), fits, where.runners, where.held, where.hour


# -- policies ----------------------------------------------------------------------------------------------------------


def _exceptions(plan: Plan, comparison: Comparison | None, strict: bool) -> str:
    """Verdicts and remediations that do not fail the plan; with a comparison only new ones. Many are folded."""
    blocked = set(plan.blocked(strict))
    standing, remediations = plan.verdicts, plan.remediations
    if comparison is not None:
        standing, remediations = comparison.new_verdicts, comparison.new_remediations
    unblocked = [verdict for verdict in standing if verdict.kind != "not-applicable" and verdict not in blocked]
    changes = list(_verdicts(unblocked, lambda verdict: verdict.level if verdict.kind == "violation" else verdict.kind))
    for remediation in remediations:
        where, what = code(words.name_of(remediation.urn)), text("; ".join(remediation.changes))
        changes.append((f"{code(remediation.rule)} remediated", where, what))
    title, columns = "Advisory, excepted, remediated or undeterminable", ("policy", "where", "what")
    return fold(f"{title}: {len(changes)}", _table(columns, changes)) if len(changes) > _FEW else _titled(title, columns, changes)


def _verdicts(
    verdicts: Sequence[Verdict], word: Callable[[Verdict], str], comparison: Comparison | None = None
) -> Iterator[Sequence[str]]:
    """Rows of (policy, resources, message), new ones first. Equal messages of one policy are one row."""
    fresh = set(comparison.new_verdicts if comparison is not None else ())
    for is_new in (True, False):
        for verdict, names in words.alike(verdict for verdict in verdicts if (verdict in fresh) == is_new):
            policy = f"{code(verdict.rule)} {word(verdict)}{' **new**' if is_new else ''}"
            yield policy, _names(map(code, names)), text(verdict.message)
