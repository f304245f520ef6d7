"""The problems of a plan as GitHub annotations on the lines of the stack file that cause them.

Facts: the runner reads workflow commands and their escapes on stdout and stderr (actions/runner, ActionCommand.cs and
ScriptHandler.cs). A step shows ten annotations of each level (actions/toolkit, docs/problem-matchers.md), so errors come first.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.facts.credentials import mask
from fleet.facts.places import Keys
from fleet.facts.remark import CANNOT_WORK, Remark
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.base import Base
from gpu_ci.offline.ended import ENDED
from gpu_ci.offline.entries import Entry, entries
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import STACK_TYPE
from gpu_ci.offline.words import name_of

_LEVELS = ("error", "warning", "notice")
_AT = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): (?P<message>.*)")
"""The form of an input error that names a line."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation. Without a line GitHub shows it in the summary of the run only."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        """The workflow command, always on one line and without credentials."""
        place = {"file": self.file, "line": str(self.line)} if self.line else {}
        properties = ",".join(f"{key}={_property(value)}" for key, value in {**place, "title": self.title}.items())
        return f"::{self.level} {properties}::{_data(self.message)}"


def annotate(plan: Plan, root: Path, base: Base | None = None, strict: bool = False) -> tuple[Annotation, ...]:
    """Annotations of a plan, errors first. The path of the stack file is relative to `root`.

    With a base, an annotation is on a line that the change touches: the line of the problem, or else the first touched line of
    its entry. An error or a new problem without such a line has no line. Other problems that the base has too are left out.
    """
    held = _Entries(plan.config)
    found = list(_annotated(plan, held, strict))
    if base is not None:
        found = list(_of_change(found, held, base, plan.config.path, strict))
    file = shown_from(root, plan.config.path)
    ordered = sorted(_merged(found), key=lambda each: _LEVELS.index(each.level))
    return tuple(Annotation(each.level, each.title, each.message, file, each.line) for each in ordered)


def of_input(error: Exception, root: Path) -> tuple[Annotation, ...]:
    """Annotations of an input error: one for each line of the message, on the file and line that it names."""
    return tuple(_of_line(line, root) for line in str(error).splitlines())


def _of_line(line: str, root: Path) -> Annotation:
    at = _AT.fullmatch(line)
    if at is None:
        return Annotation("error", _WRONG, line)
    return Annotation("error", _WRONG, at["message"], shown_from(root, Path(at["file"])), int(at["line"]))


_WRONG = "wrong input"


# -- problems ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """One problem of the `entries` (several if a pool and a runner set share a name); `line` is the line of the problem."""

    level: str
    title: str
    message: str
    entries: tuple[Entry, ...]
    line: int | None


def _annotated(plan: Plan, held: _Entries, strict: bool) -> Iterator[_Found]:
    for refused in plan.refused:
        entry = held.named(f"{refused.cluster}/{refused.workload}", refused.kind)
        yield _Found("error", f"{refused.workload} cannot be placed", refused.error, entry, held.line(entry))
    blocked = plan.blocked(strict)
    advisory = (
        verdict
        for verdict in plan.verdicts
        if verdict.kind == ENDED or (verdict.kind == "violation" and verdict.level == "advisory")
    )
    for verdicts, level in ((blocked, "error"), (advisory, "warning")):
        for verdict in verdicts:
            entry = held.of_resource(plan, verdict.urn)
            yield _Found(level, verdict.rule, f"{name_of(verdict.urn)}: {verdict.message}", entry, held.line(entry))
    for remark in plan.remarks:
        entry, line = held.of_remark(remark)
        level = "error" if remark in plan.written else "warning" if remark.kind == CANNOT_WORK else "notice"
        yield _Found(level, "remark" if level == "notice" else "cannot work", remark, entry, line)


def _merged(found: Iterable[_Found]) -> Iterator[_Found]:
    """Merge the problems that one policy reports for several resources of one entry."""
    groups: dict[tuple[str, str, int | None], list[_Found]] = {}
    for each in found:
        groups.setdefault((each.level, each.title, each.line), []).append(each)
    for group in groups.values():
        if group[0].level == "notice":
            yield from group
        else:
            yield replace(group[0], message="\n".join(each.message for each in group))


class _Entries:
    """The entries of a stack file. Finds those that cause a problem."""

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        self._entries = [entry for entry in entries(config) if entry.name]

    def named(self, name: str, kind: str = "") -> tuple[Entry, ...]:
        """Entries with a name such as "usw2" or "usw2/t4-spot"."""
        return tuple(entry for entry in self._entries if entry.name == name and kind in ("", entry.kind))

    def line(self, found: Collection[Entry]) -> int | None:
        """The line of the first entry."""
        return next((self._config.line_of(*entry.path) for entry in found), None)

    def lines(self, entry: Entry) -> tuple[int, ...]:
        """Lines of an entry, the first line first, without the lines of the entries inside of it."""
        within = [other.path for other in self._entries if other.path != entry.path and _starts(other.path, entry.path)]
        return tuple(
            sorted(
                line
                for path, line in self._config.positions.items()
                if _starts(path, entry.path) and not any(_starts(path, inner) for inner in within)
            )
        )

    def of_resource(self, plan: Plan, urn: str) -> tuple[Entry, ...]:
        """The entries of a resource: those named like it or a parent of it, else those whose name is the start of its name."""
        names = list(_lineage(plan, urn))
        for name in names:
            if exact := tuple(entry for entry in self._entries if entry.logical == name):
                return exact
        within = [entry for name in names[:1] for entry in self._entries if name.startswith(f"{entry.logical}-")]
        longest = max((len(entry.logical) for entry in within), default=0)
        return tuple(entry for entry in within if len(entry.logical) == longest)

    def of_remark(self, remark: Remark) -> tuple[tuple[Entry, ...], int | None]:
        """The entries and the line that a remark names: an entry or a part of a cluster ("usw2/system"), and maybe a path.

        Of several pools ("usw2/t4-spot + t4-ondemand") it is the first.
        """
        where, _, rest = remark.partition(": ")
        where = remark.parts[0] if remark.parts else where.partition(" + ")[0]
        name, _, part = where.partition("/")
        found = self.named(where) or (self.named(name) if part else ())
        path = rest.partition(": ")[0].split(".") if found and found[0].name == where else [part]
        inner = next((line for entry in found if (line := self._config.positions.get((*entry.path, *path)))), None)
        return found, inner or self.line(found)


def _lineage(plan: Plan, urn: str) -> Iterator[str]:
    """Logical names of a resource and its parents, the resource first."""
    by_urn = plan.recording.by_urn if plan.recording is not None else {}
    while (resource := by_urn.get(urn)) is not None and resource.type != STACK_TYPE:
        yield resource.name
        urn = resource.parent


def _starts(path: Keys, head: Keys) -> bool:
    return path[: len(head)] == head


# -- changed lines -----------------------------------------------------------------------------------------------------


def _of_change(found: Iterable[_Found], held: _Entries, base: Base, path: Path, strict: bool) -> Iterator[_Found]:
    """The problems that matter for a change, on lines that the change touches if there are any."""
    touched = _changed_lines(base.text, path.read_text(encoding="utf-8", errors="replace"))
    before = entries(base.plan.config) if base.plan else ()
    known = {each.message for each in _annotated(base.plan, _Entries(base.plan.config), strict)} if base.plan else set()
    for each in found:
        is_new = each.message not in known
        line = _touched(each, touched, held, before)
        if is_new or each.level == "error" or (line is not None and each.level == "warning"):
            yield replace(each, line=line)


def _touched(found: _Found, touched: Collection[int], held: _Entries, before: Collection[Entry]) -> int | None:
    """The line of a problem if the change touches it, else the first touched line of its entry.

    An entry that did not change has no touched line, because lines that were removed below it do not belong to it.
    """
    if found.line in touched:
        return found.line
    changed = (entry for entry in found.entries if entry not in before)
    return next((line for entry in changed for line in held.lines(entry) if line in touched), None)


def _changed_lines(before: str, after: str) -> frozenset[int]:
    """Lines of `after` that differ. For removed lines it is the line before them."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changed: set[int] = set()
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            changed |= set(range(start + 1, end + 1))
        elif tag == "delete":
            changed.add(max(start, 1))
    return frozenset(changed)


def print_annotations(annotations: Iterable[Annotation]) -> None:
    """Print GitHub annotations on stderr, one per line."""
    sys.stderr.writelines(f"{annotation}\n" for annotation in annotations)


# -- spelling ----------------------------------------------------------------------------------------------------------


def shown_from(root: Path, path: Path) -> str:
    """A path relative to `root` if it is below it, else as it was given."""
    whole = path.absolute()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(path)


def _data(value: str) -> str:
    return mask(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
