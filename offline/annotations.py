"""What is wrong with a plan, as GitHub's annotations on the lines of the stack file that it comes from.

Facts: workflow commands and their escapes are those that the runner reads on stdout and stderr alike (actions/runner,
ActionCommand.cs and ScriptHandler.cs); a step shows ten annotations of each level (actions/toolkit, docs/problem-matchers.md), so
what fails comes first.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.facts.credentials import mask
from fleet.facts.places import Keys
from fleet.loading.stackfile import StackConfig
from offline.base import Base
from offline.entries import Entry, entries
from offline.plan import Plan
from offline.record import STACK_TYPE
from offline.words import name_of

_LEVELS = ("error", "warning", "notice")
_AT = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+): (?P<message>.*)")
"""How an error of the input begins where it has a line."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation; without a line it stands in the summary of the run alone."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        """The workflow command: one line whatever the texts hold, without credentials."""
        place = {"file": self.file, "line": str(self.line)} if self.line else {}
        properties = ",".join(f"{key}={_property(value)}" for key, value in {**place, "title": self.title}.items())
        return f"::{self.level} {properties}::{_data(self.message)}"


def annotate(plan: Plan, root: Path, base: Base | None = None, strict: bool = False) -> tuple[Annotation, ...]:
    """Annotations of a plan, what fails it first: the stack file's path is shown from `root` on.

    With a base only lines that the change touches get one: that of the problem, or else the first one of its entry. Off these
    lines what fails or is new stands in the summary, and what was there before is left out, as old remarks are everywhere.
    """
    held = _Entries(plan.config)
    found = list(_annotated(plan, held, strict))
    if base is not None:
        found = list(_of_change(found, held, base, plan.config.path, strict))
    file = _shown(plan.config.path, root)
    ordered = sorted(_merged(found), key=lambda each: _LEVELS.index(each.level))
    return tuple(Annotation(each.level, each.title, each.message, file, each.line) for each in ordered)


def of_input(error: Exception, stack_file: Path, root: Path) -> tuple[Annotation, ...]:
    """Annotations of input that cannot be used: an error each line of the message, where it names file and line there."""
    return tuple(_of_line(line, stack_file, root) for line in str(error).splitlines())


def _of_line(line: str, stack_file: Path, root: Path) -> Annotation:
    at = _AT.fullmatch(line)
    if at is None:
        return Annotation("error", _WRONG, line)
    # The settings' errors name the stack file without its folder.
    file = stack_file if at["file"] == stack_file.name else Path(at["file"])
    return Annotation("error", _WRONG, at["message"], _shown(file, root), int(at["line"]))


_WRONG = "wrong input"


# -- what there is to say ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """Something to say of one of `entries` (several where a pool and a runner set share a name); `line` is its own place."""

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
    advisory = (verdict for verdict in plan.verdicts if verdict.kind == "violation" and verdict.level == "advisory")
    for verdicts, level in ((blocked, "error"), (advisory, "warning")):
        for verdict in verdicts:
            entry = held.of_resource(plan, verdict.urn)
            yield _Found(level, verdict.rule, f"{name_of(verdict.urn)}: {verdict.message}", entry, held.line(entry))
    for remark in plan.remarks:
        entry, line = held.of_remark(remark)
        yield _Found("notice", "remark", remark, entry, line)


def _merged(found: Iterable[_Found]) -> Iterator[_Found]:
    """What one policy says of several resources of one entry is one annotation."""
    groups: dict[tuple[str, str, int | None], list[_Found]] = {}
    for each in found:
        groups.setdefault((each.level, each.title, each.line), []).append(each)
    for group in groups.values():
        if group[0].level == "notice":
            yield from group
        else:
            yield replace(group[0], message="\n".join(each.message for each in group))


class _Entries:
    """The entries of a stack file, and which of them something comes from."""

    def __init__(self, config: StackConfig) -> None:
        self._config = config
        self._entries = [entry for entry in entries(config) if entry.name]

    def named(self, name: str, kind: str = "") -> tuple[Entry, ...]:
        """Entries of a name, as "usw2" or "usw2/t4-spot"."""
        return tuple(entry for entry in self._entries if entry.name == name and kind in ("", entry.kind))

    def line(self, found: Collection[Entry]) -> int | None:
        """The line of the first entry."""
        return next((self._config.line_of(*entry.path) for entry in found), None)

    def lines(self, entry: Entry) -> tuple[int, ...]:
        """Lines with a setting of its own, its head first; those of the entries in it are none of them."""
        within = [other.path for other in self._entries if other.path != entry.path and _starts(other.path, entry.path)]
        return tuple(
            sorted(
                line
                for path, line in self._config.positions.items()
                if _starts(path, entry.path) and not any(_starts(path, inner) for inner in within)
            )
        )

    def of_resource(self, plan: Plan, urn: str) -> tuple[Entry, ...]:
        """The entries that a resource was made for: it or one that it is part of bears their name, or begins with it."""
        names = list(_lineage(plan, urn))
        for name in names:
            if exact := tuple(entry for entry in self._entries if entry.logical == name):
                return exact
        within = [entry for name in names[:1] for entry in self._entries if name.startswith(f"{entry.logical}-")]
        longest = max((len(entry.logical) for entry in within), default=0)
        return tuple(entry for entry in within if len(entry.logical) == longest)

    def of_remark(self, remark: str) -> tuple[tuple[Entry, ...], int | None]:
        """What a remark begins with: an entry, a part of a cluster that is none ("usw2/system"), after either a path in it."""
        where, _, rest = remark.partition(": ")
        name, _, part = where.partition("/")
        found = self.named(where) or (self.named(name) if part else ())
        path = rest.partition(": ")[0].split(".") if found and found[0].name == where else [part]
        inner = next((line for entry in found if (line := self._config.positions.get((*entry.path, *path)))), None)
        return found, inner or self.line(found)


def _lineage(plan: Plan, urn: str) -> Iterator[str]:
    """Logical names of a resource and what it is part of, itself first."""
    by_urn = plan.recording.by_urn if plan.recording is not None else {}
    while (resource := by_urn.get(urn)) is not None and resource.type != STACK_TYPE:
        yield resource.name
        urn = resource.parent


def _starts(path: Keys, head: Keys) -> bool:
    return path[: len(head)] == head


# -- where the change is -----------------------------------------------------------------------------------------------


def _of_change(found: Iterable[_Found], held: _Entries, base: Base, path: Path, strict: bool) -> Iterator[_Found]:
    """What there is to say of a change, on lines that it touches as far as there are."""
    touched = _changed_lines(base.text, path.read_text(encoding="utf-8", errors="replace"))
    before = entries(base.plan.config) if base.plan else ()
    known = {each.message for each in _annotated(base.plan, _Entries(base.plan.config), strict)} if base.plan else set()
    for each in found:
        is_new = each.message not in known
        line = _touched(each, touched, held, before)
        if is_new or each.level == "error" or (line is not None and each.level == "warning"):
            yield replace(each, line=line)


def _touched(found: _Found, touched: Collection[int], held: _Entries, before: Collection[Entry]) -> int | None:
    """The line of a problem if the change touches it, or else the first touched one of its entry.

    An entry that was the same before is not touched: what went behind it is not its own.
    """
    if found.line in touched:
        return found.line
    changed = (entry for entry in found.entries if entry not in before)
    return next((line for entry in changed for line in held.lines(entry) if line in touched), None)


def _changed_lines(before: str, after: str) -> frozenset[int]:
    """Lines of `after` that differ; where lines went, the one before them."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changed: set[int] = set()
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            changed |= set(range(start + 1, end + 1))
        elif tag == "delete":
            changed.add(max(start, 1))
    return frozenset(changed)


# -- spelling ----------------------------------------------------------------------------------------------------------


def _shown(path: Path, root: Path) -> str:
    """A path from the project's folder on, where it lies in it."""
    whole = path if path.is_absolute() else root / path
    return str(whole.relative_to(root) if whole.is_relative_to(root) else path)


def _data(value: str) -> str:
    return mask(value).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
