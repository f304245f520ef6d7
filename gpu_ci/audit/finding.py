"""What an audit says: findings with their places, and the smallest fix as a diff in the file that has the fault.

`messages.toml` has the level and the words of each case. A text there ends with how to fix the fault.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fleet.facts.errors import InputError
from fleet.facts.groups import grouped
from fleet.facts.places import Keys as Keys_
from fleet.facts.tables import beside
from fleet.facts.yaml_text import text_of, yaml_text
from gpu_ci.audit.model import Keys
from gpu_ci.offline.grow.draft import Draft

Level = Literal["error", "warning", "undeterminable"]
_RULES = beside(__file__, "messages.toml")
_CASES = {f"{rule}.{case}": (rule, row) for rule, cases in _RULES.items() for case, row in cases.items()}
_MARK = re.compile(r"(?m)^---.*\n")


class Edit(NamedTuple):
    """The value that a path below `at` should have; None removes the key. An index past the end of a list adds to the list."""

    at: Keys
    path: Keys_
    value: Any

    @property
    def keys(self) -> Keys_:
        """The path from the top of the document."""
        return (*self.at.path, *self.path)


class Finding(NamedTuple):
    """One line of an audit: `place` is file and line, `rule` what was checked, `edits` the fix as values of the file.

    `subject` is the name of the class, pool or job that it is about; empty for a file.
    """

    place: str
    level: Level
    rule: str
    message: str
    subject: str = ""
    edits: tuple[Edit, ...] = ()

    @property
    def diff(self) -> str:
        """The fix as a unified diff; empty if it is not an edit of values, or if the form of the file allows none."""
        return diff_of(self.edits)


def said(case: str, at: Keys | str, subject: str = "", edits: Iterable[Edit] = (), **facts: object) -> Finding:
    """The finding of a case of `messages.toml`, such as "runner-age.ended", at a value or a place."""
    rule, row = _CASES[case]
    place = at if isinstance(at, str) else at.place
    return Finding(place, row["level"], rule, row["text"].format(subject=subject, **facts), subject, tuple(edits))


def diff_of(edits: Iterable[Edit]) -> str:
    """The edits as a unified diff of their files."""
    return "".join(_of_file(path, file) for path, file in grouped((edit.at.file.path, edit) for edit in edits).items())


def _of_file(path: Path, edits: list[Edit]) -> str:
    if path.suffix == ".json" or any(edit.at.inner for edit in edits):
        return ""
    before = text_of(path)
    after = before
    # The last item of a list goes first, so that the places of the others stay.
    removed = [edit for edit in reversed(edits) if edit.value is None]
    try:
        for edit in (*(edit for edit in edits if edit.value is not None), *removed):
            after = _edited(path, after, edit)
    except InputError:
        return ""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    name = relative(path)
    return "".join(unified_diff(old, new, f"a/{name}", f"b/{name}", n=1))


def relative(path: Path) -> str:
    """A path from the current folder, if it is below it, else without its first slash."""
    here = Path.cwd()
    found = path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path
    return found.as_posix().removeprefix("/")


def _edited(path: Path, text: str, edit: Edit) -> str:
    """A file with one value changed. Raises InputError if its text does not allow that."""
    first = edit.at.file.document.lines[()]
    starts = [0, *(mark.end() for mark in _MARK.finditer(text)), len(text)]
    # The document that the line is in.
    start = max(place for place in starts[:-1] if text.count("\n", 0, place) < first)
    end = next(place for place in starts if place > start)
    tail = re.search(r"(?m)^---.*\n\Z", text[start:end])
    end -= len(tail[0]) if tail else 0
    draft = Draft(str(path), text[start:end])
    _apply(draft, edit.keys, edit.value)
    return text[:start] + draft.checked() + text[end:]


def _apply(draft: Draft, keys: Keys_, value: Any) -> None:
    parent, key = keys[:-1], keys[-1]
    holder = draft.value(parent)
    if isinstance(key, int) and isinstance(holder, list) and 0 < len(holder) <= key:
        draft.append(parent, _flow(value))
        draft.value(parent)[-1] = value
    elif value is None:
        draft.remove(keys)
    elif holder and draft.value(keys) is not None:
        draft.put(keys, _flow(value))
    elif isinstance(holder, dict) and isinstance(key, str):
        draft.add(parent, yaml_text({key: value}).splitlines())
    else:
        # Nothing is there yet: the value comes with its holder.
        _apply(draft, parent, [value] if isinstance(key, int) else {key: value})


def _flow(value: Any) -> str:
    return yaml_text([value], flow=True).strip()[1:-1]


def sorted_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Each finding once, in the order of the files and lines."""
    unique = {finding[:4]: finding for finding in findings}.values()
    yield from sorted(unique, key=lambda finding: _place(finding.place))


def _place(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return (file, int(line)) if line.isdigit() else (place, 0)
