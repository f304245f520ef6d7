"""The changes from the base of a pull request for the terminal, one line for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from gpu_ci.offline.base import Base
from gpu_ci.offline.compare import Comparison, Pair, difference
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.words import Place, name_of, one_line, short


def changed_lines(plan: Plan, base: Base) -> Iterator[str]:
    """The changes from the base to the plan, or the reason why the base has no plan."""
    if base.plan is not None:
        yield from map(one_line, _lines(Comparison(base.plan, plan, base.arc)))
    else:
        yield one_line(f"{base.reason}. This is only the plan after the change.")


def _lines(comparison: Comparison) -> Iterator[str]:
    if comparison.nothing:
        yield "the change has no effect"
    yield from comparison.ended_jobs
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
            idle, worst = (
                Pair(*(str(getattr(side, of)) if side else None for side in (line.before, line.after))) for of in _COSTS
            )
            yield f"price of {cluster}/{item}: idle {_arrow(idle)}, worst {_arrow(worst)}"
    for word, of in (("idle", comparison.idle), ("worst", comparison.worst)):
        yield f"total at {word}: {of[0]} → {of[1]} USD an hour ({difference(*of)})"
    for word, verdicts in (("newly broken", comparison.newly_broken), ("fixed", comparison.fixed)):
        yield from dict.fromkeys(f"{word}: {verdict.rule}: {name_of(verdict.urn)}" for verdict in verdicts)
    for kind in comparison.resources:
        counts = (("added", kind.added), ("removed", kind.removed), ("changed", tuple(kind.changed)))
        yield from (f"{short(kind.type)}: {len(names)} {word}: {', '.join(names)}" for word, names in counts if names)


_COSTS = ("idle", "worst")


def _place(pair: Pair[Place]) -> Iterator[str]:
    for part in fields(Place):
        before, after = (_text(getattr(side, part.name)) for side in (pair.before, pair.after))
        if before != after:
            yield f"{_WORDS.get(part.name, part.name)} {before or 'nothing'} → {after or 'nothing'}"


_WORDS = {"held": "pool holds", "hour": "USD a runner-hour", "holds": "a node holds"}


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _arrow(pair: Pair[str]) -> str:
    return f"{'not set' if pair.before is None else pair.before} → {'not set' if pair.after is None else pair.after}"
