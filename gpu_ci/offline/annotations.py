"""The problems of a plan as GitHub annotations on the lines of the stack file that cause them.

A step shows ten annotations of each level (actions/toolkit, docs/problem-matchers.md), so errors come first.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleet.facts.errors import Fault
from fleet.facts.groups import grouped
from fleet.facts.remark import CANNOT_WORK, Remark
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.base import Base
from gpu_ci.offline.entries import Entry, entries, owners
from gpu_ci.offline.judge import ENDED
from gpu_ci.offline.notes import Annotation
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.words import name_of, refusal


def annotate(plan: Plan, root: Path, base: Base | None = None, strict: bool = False) -> tuple[Annotation, ...]:
    """Annotations of a plan, errors first, at the lines of the problems. The path of the stack file is relative to `root`.

    With a base, warnings and notices that the base has too are left out.
    """
    problems = list(_annotated(plan, strict))
    if base is not None and base.plan is not None:
        old = {problem.message for problem in _annotated(base.plan, strict)}
        problems = [problem for problem in problems if problem.level == "error" or problem.message not in old]
    file = shown_from(root, plan.config.path)
    merged = list(_merged(problems))
    levels = ("error", "warning", "notice")
    return tuple(problem._replace(file=file) for level in levels for problem in merged if problem.level == level)


def of_input(error: Exception, root: Path) -> Iterator[Annotation]:
    """Annotations of an input error: one for each line of the message, on the file and line that it names."""
    for line in str(error).splitlines():
        fault = Fault.of(line)
        file = shown_from(root, Path(fault.file)) if fault.file else ""
        yield Annotation("error", "wrong input", line.removeprefix(f"{fault.file}:{fault.line}: "), file, fault.line)


# -- problems ----------------------------------------------------------------------------------------------------------


def _annotated(plan: Plan, strict: bool) -> Iterator[Annotation]:
    """The problems of a plan, each with its line, but without the file."""
    named = [entry for entry in entries(plan.config) if entry.name]
    for refused in plan.refused:
        line = refusal(plan.config, refused).line
        yield Annotation("error", f"{refused.workload} cannot be placed", refused.error, line=line)
    blocked = plan.blocked(strict)
    lesser = ((ENDED, "mandatory"), (ENDED, "advisory"), ("violation", "advisory"))
    advisory = (verdict for verdict in plan.verdicts if (verdict.kind, verdict.level) in lesser)
    for verdicts, level in ((blocked, "error"), (advisory, "warning")):
        for verdict in verdicts:
            names = [*plan.recording.lineage(verdict.urn)] if plan.recording is not None else []
            line = _line(plan.config, owners(named, names))
            yield Annotation(level, verdict.rule, f"{name_of(verdict.urn)}: {verdict.message}", line=line)
    for remark in plan.remarks:
        level = "error" if remark in plan.written else "warning" if remark.kind == CANNOT_WORK else "notice"
        title = "remark" if level == "notice" else "cannot work"
        yield Annotation(level, title, remark, line=_line_of_remark(plan.config, named, remark))


def _merged(problems: Iterable[Annotation]) -> Iterator[Annotation]:
    """Merge the problems that one policy reports for several resources of one entry."""
    for group in grouped(((problem.level, problem.title, problem.line), problem) for problem in problems).values():
        if group[0].level == "notice":
            yield from group
        else:
            yield group[0]._replace(message="\n".join(problem.message for problem in group))


def _line(config: StackConfig, places: Iterable[Entry]) -> int | None:
    """The line of the first entry."""
    return next((config.line_of(*entry.path) for entry in places), None)


def _line_of_remark(config: StackConfig, named: Iterable[Entry], remark: Remark) -> int | None:
    """The line that a remark names: of an entry or a part of a cluster ("usw2/system"), and maybe of a path in it.

    Of several pools ("usw2/t4-spot + t4-ondemand") it is the first.
    """
    by_name = grouped((entry.name, entry) for entry in named)
    where, _, rest = remark.partition(": ")
    where = remark.parts[0] if remark.parts else where.partition(" + ")[0]
    name, _, part = where.partition("/")
    places = by_name.get(where) or (by_name.get(name, []) if part else [])
    path = rest.partition(": ")[0].split(".") if places and places[0].name == where else [part]
    inner = next((line for entry in places if (line := config.positions.get((*entry.path, *path)))), None)
    return inner or _line(config, places)


def print_annotations(annotations: Iterable[Annotation]) -> None:
    """Print GitHub annotations on stderr, one per line."""
    sys.stderr.writelines(f"{annotation}\n" for annotation in annotations)


# -- spelling ----------------------------------------------------------------------------------------------------------


def shown_from(root: Path, path: Path) -> str:
    """A path relative to `root` if it is below it, else as it was given."""
    whole = path.absolute()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(path)
