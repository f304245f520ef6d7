"""Edits the text of a stack file at the places of its values. Every other byte stays: comments, order, quotes, line ends."""

import json
import re
from collections.abc import Sequence
from typing import Any

from fleet.facts.errors import InputError
from fleet.facts.places import Keys
from fleet.facts.yaml_text import Part, document_of, parts_of, yaml_text

_WIDTH = 130
"""The longest line in braces."""


class Draft:
    """The text of a stack file with edits. Each edit is made in the text and in the values, and `checked` compares both.

    A path is the keys and indexes from the top of the file. Lines are YAML with two spaces for each level. Every method raises
    InputError for a place that an alias or a merge key gives, because its text is elsewhere.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        # Through JSON, so that no two places share a value by an alias.
        self.values: Any = json.loads(json.dumps(document_of(name, text).value))
        self._eol = "\r\n" if "\r\n" in text else "\n"

    def checked(self) -> str:
        """The text, if a reader gets from it exactly the edited values. Raises InputError."""
        try:
            now = json.dumps(document_of(self.name, self.text).value, sort_keys=True)
        except InputError as error:
            now = str(error)
        if now != json.dumps(self.values, sort_keys=True):
            why = "an anchor, a merge key or an unusual layout is near the place"
            rule = f"{self.name}: this edit would change other settings too: {why}"
            raise InputError(f"{rule}; nothing was written, edit it by hand")
        return self.text

    def value(self, path: Keys) -> Any:
        """The value at a path; None if there is none."""
        value = self.values
        for key in path:
            if isinstance(value, dict):
                value = value.get(key)
            else:
                value = value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None
        return value

    def lines_of(self, path: Keys) -> list[str]:
        """The lines of a key with its value and the comments above it, with two spaces for each level."""
        part, holder = self._part(path), self._part(path[:-1])
        if holder.kind == "flow":
            return self.text[part.at : part.end].splitlines()
        start, end = self._span(part)
        column, step = self._column(part.at), self._step
        rows = self.text[start:end].splitlines()
        return [f"{' ' * ((_indent(row) - column) * 2 // step)}{row.strip()}" if row.strip() else "" for row in rows]

    def add(self, path: Keys, lines: Sequence[str], before: str = "") -> None:
        """Add a key to the mapping at a path, at its end or before another key. The mapping may be missing in its own mapping."""
        holder = self._part(path[:-1])
        if self.value(path) is None and path[-1] not in holder.parts:
            self.add(path[:-1], [f"{path[-1]}:", *(f"  {line}" for line in lines)], "runners")
            return
        if (part := self._part(path)).parts:
            self._add_beside(part, lines, before)
        elif holder.kind == "block":
            # Nothing, null or {}: the entry goes below the key.
            self._replace(part.key_end + len(self.text[part.key_end : part.start].rstrip(" ")), part.end, "")
            self._write(self._next(part.key_end), self._indented(lines, self._column(part.at) + self._step))
        else:
            self._replace(part.start, part.end, f"{{{_in_braces(lines)}}}")
        if self.value(path) is None:
            self.value(path[:-1])[path[-1]] = {}
        self.value(path).update(_entry(lines))

    def append(self, path: Keys, value: str) -> None:
        """Add a text to the end of the list at a path, which has others."""
        holder = self._part(path)
        last = holder.parts[len(holder.parts) - 1]
        if holder.kind == "flow":
            self._replace(last.end, last.end, f", {value}")
        else:
            self._write(self._span(last)[1], [self.text[self._line(last.at) : last.at] + value])
        self.value(path).append(document_of("append", value).value)

    def put(self, path: Keys, value: str) -> None:
        """Give a key another value, as YAML on one line."""
        part = self._part(path)
        self._replace(part.start, part.end, value)
        self.value(path[:-1])[path[-1]] = document_of("put", value).value

    def rename(self, path: Keys, name: str) -> None:
        """Give a key another name."""
        part = self._part(path)
        self._replace(part.at, part.key_end, name)
        holder = self.value(path[:-1])
        holder[name] = holder.pop(path[-1])

    def comment(self, path: Keys, words: str) -> None:
        """Give a key in block style another comment above it."""
        at = self._part(path).at
        self._replace(self._span(self._part(path))[0], self._line(at), f"{' ' * self._column(at)}# {words}{self._eol}")

    def remove(self, path: Keys) -> None:
        """Remove a key or an item of a list with the comments above it. A mapping that would be empty is removed too."""
        holder, part = self._part(path[:-1]), self._part(path)
        if len(holder.parts) == 1 and len(path) > 1:
            self.remove(path[:-1])
            return
        names = [*holder.parts]
        at = names.index(path[-1])
        if holder.kind == "flow":
            self._remove_flow([*holder.parts.values()], at)
        else:
            start, end = self._span(part)
            follows = at + 1 < len(names) and self._blank_above(self._span(holder.parts[names[at + 1]])[0])
            if at and self._blank_above(start) and (follows or at + 1 == len(names)):
                start = self._line(self._line(start) - 1)
            if end == len(self.text) and not self.text.endswith("\n"):
                start -= len(self._eol)
            self._replace(start, end, "")
        del self.value(path[:-1])[path[-1]]

    # -- places --

    def _part(self, path: Keys) -> Part:
        """The part at a path. Raises InputError if its text is elsewhere."""
        part = parts_of(self.text)
        for depth, key in enumerate(path):
            if key not in part.parts:
                how = "a merge key gives it" if "<<" in part.parts else "it is not in the file"
                raise InputError(f"{self.name}: {'.'.join(map(str, path[: depth + 1]))}: {how}; edit it by hand")
            if (part := part.parts[key]).kind == "alias":
                line = self.text.count("\n", 0, part.start) + 1
                where = f"{self.name}:{line}: {'.'.join(map(str, path[: depth + 1]))}"
                why = f"{where}: is the alias {self.text[part.start : part.end]}"
                raise InputError(f"{why}; write it out here, or edit it by hand")
        return part

    def _line(self, offset: int) -> int:
        """Where the line of an offset begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def _next(self, offset: int) -> int:
        """Where the line after that of an offset begins; the end of the text for the last line."""
        return self.text.find("\n", offset) + 1 or len(self.text)

    def _column(self, offset: int) -> int:
        return _indent(self.text[self._line(offset) : offset])

    @property
    def _step(self) -> int:
        """Spaces of one level in this file."""
        columns = (self._column(part.at) for top in parts_of(self.text).parts.values() for part in top.parts.values())
        return next(filter(None, columns), 2)

    def _span(self, part: Part) -> tuple[int, int]:
        """The lines of an entry in block style: with the comments directly above it, and those below that are deeper."""
        start, column = self._line(part.at), self._column(part.at)
        while start and (above := self.text[self._line(start - 1) : start]).lstrip(" ").startswith("#"):
            if _indent(above) != column:
                break
            start -= len(above)
        end = place = self._next(part.end)
        while place < len(self.text):
            row = self.text[place : self._next(place)]
            if row.strip() and not (row.lstrip().startswith("#") and _indent(row) > column):
                break
            place = self._next(place)
            end = place if row.strip() else end
        return start, end

    def _blank_above(self, start: int) -> bool:
        return start > 1 and not self.text[self._line(start - 1) : start].strip()

    # -- text --

    def _replace(self, start: int, end: int, new: str) -> None:
        self.text = self.text[:start] + new + self.text[end:]

    def _write(self, place: int, rows: Sequence[str]) -> None:
        """Put whole lines where a line begins, or after the last one."""
        text = self._eol.join(rows)
        ends = place < len(self.text) or self.text.endswith("\n")
        self._replace(place, place, text + self._eol if ends else self._eol + text)

    def _add_beside(self, holder: Part, lines: Sequence[str], before: str) -> None:
        """Add an entry to others, in their style."""
        parts = [*holder.parts.values()]
        last = parts[-1]
        if holder.kind == "flow":
            # An entry on a line of its own gets company on such a line.
            line = f"{self._eol}{' ' * self._column(last.at)}" if self._line(last.at) > holder.start else " "
            self._replace(last.end, last.end, f",{line}{_in_braces(lines)}")
            return
        # The first key of an item of a list is behind its dash.
        ahead = self.text[self._line(parts[0].at) : parts[0].at]
        column = _indent(ahead) if ahead.strip(" -") else len(ahead)
        if all(part.kind == "flow" and part.parts for part in parts):
            short = [*[line for line in lines if line.startswith("#")], _in_braces(lines)]
            if not any(re.match(" +#", line) for line in lines) and len(short[-1]) + column <= _WIDTH:
                lines = short
        rows = self._indented(lines, column)
        if before in holder.parts:
            self._write(self._span(holder.parts[before])[0], rows)
            return
        start, end = self._span(last)
        self._write(end, [*[""] * (len(parts) > 1 and self._blank_above(start)), *rows])

    def _indented(self, lines: Sequence[str], column: int) -> list[str]:
        """Lines at a column, with the file's spaces for each level. What is in a list keeps its distance from the dash."""
        rows, dash = [], -1
        for line in lines:
            indent = _indent(line)
            dash = -1 if indent <= dash and not line.lstrip().startswith("- ") else dash
            if dash < 0 and line.lstrip().startswith("- "):
                dash = indent
            scaled = indent * self._step // 2 if dash < 0 else dash * self._step // 2 + indent - dash
            rows.append(f"{' ' * (column + scaled)}{line.strip()}" if line.strip() else "")
        return rows

    def _remove_flow(self, parts: Sequence[Part], at: int) -> None:
        """Remove an entry of a mapping or list in braces, with the comma before or after it."""
        last = at + 1 == len(parts)
        start, end = (parts[at - 1].end, parts[at].end) if last else (parts[at].at, parts[at + 1].at)
        if "#" in self.text[start : parts[at].at] + self.text[parts[at].end : end]:
            raise InputError(f"{self.name}: a comment is beside the entry in braces; edit it by hand")
        self._replace(start, end, "")


def _entry(lines: Sequence[str]) -> Any:
    """The mapping with the key of an entry."""
    return document_of("added", "\n".join(lines)).value


def _in_braces(lines: Sequence[str]) -> str:
    """An entry as one line of a mapping in braces."""
    return yaml_text(_entry(lines), flow=True).strip()[1:-1]


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip(" "))
