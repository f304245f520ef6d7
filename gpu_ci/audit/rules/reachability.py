"""Runner classes that no pool can run, or that a pool could run only with nodes that never come."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from fleet.prove import reach
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.homes import answer, homes
from gpu_ci.audit.model import RunnerClass, Seen


def unreachable(seen: Seen, _: date) -> Iterator[Finding]:
    """Classes without a pool, with the shortest chain of reasons, and the fix that the proof tried."""
    for one in seen.classes:
        found = answer(one, seen)
        if found is None or found.runs or found.nearest is None:
            continue
        near = found.nearest
        why = ", and ".join(reason.text for reason in near.reasons)
        fix = ", and ".join(edit.words for edit in found.fix) or "no change of this class or pool is enough; use another machine"
        facts: dict[str, Any] = {"pool": near.pool.name, "its": near.pool.place, "outcome": near.text, "why": why, "fix": fix}
        yield said("no-pool.nearest", one.at, one.name, [edit for row in found.fix for edit in _edits(one, row, found)], **facts)


def stranded(seen: Seen, _: date) -> Iterator[Finding]:
    """Nodes that are full of a class and have GPUs left."""
    for one in seen.classes:
        for home in homes(one, seen)[:1]:
            if home.stranded and home.machine is not None and home.held:
                facts: dict[str, Any] = {"pool": home.pool.name, "machine": home.machine.name, "gpus": home.machine.gpus}
                yield said("stranded.node", one.at, one.name, held=home.held, idle=home.stranded, **facts)


def _edits(one: RunnerClass, edit: reach.Edit, found: reach.Reach) -> Iterator[Edit]:
    """A change of the pod as one of the file. Of a pool the words say it: each tool writes them in its own way."""
    if edit.on == "pod" and one.pod_at is not None and one.job is None:
        path = tuple(_index(found, edit.path[:at]) if step == "-" else step for at, step in enumerate(edit.path))
        yield Edit(one.values, (*one.pod_at, *path), edit.value)


def _index(found: reach.Reach, path: tuple[str | int, ...]) -> int:
    """Where a new entry of a list goes."""
    value: object = {"spec": found.pod.spec}
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return len(value) if isinstance(value, list) else 0
