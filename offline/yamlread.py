"""YAML text to plain values and line numbers, read as the Pulumi CLI reads it.

The CLI reads with gopkg.in/yaml.v3, which is the YAML 1.2 core schema with four habits of its own that are kept here:
an integer may hold underscores, `0777` is octal, `0b101` is binary, and digits that are no integer (`08`) are a float.
`yes`, `on` and `9:00` are strings. Only the scanner and parser of ruamel.yaml are used: resolving plain scalars here
keeps the schema in one place and gives every key its line.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from offline.errors import InputError

Keys = tuple[str | int, ...]
T = TypeVar("T")

_CONSTANTS: dict[str, object] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PARTED = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_INTEGER = re.compile(r"(?P<sign>[-+]?)(?P<digits>0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?"
_DATE = re.compile(rf"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}([Tt]{_CLOCK}(Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_CLOCK})?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}
_LARGEST = 2**64
_SMALLEST = -(2**63)
_MOST_DIGITS = 20
"""Of a decimal integer that 64 bits can hold."""
_DEEPEST = 100
"""Levels of mappings and lists; the CLI's limit is 10,000, which nobody's settings come near."""
_MOST_COPIES = 100_000
"""Values that aliases may add. A few lines of aliases of aliases can stand for more than any memory holds."""
_TOO_MANY = f"values nest at most {_DEEPEST} levels deep and aliases add at most {_MOST_COPIES:,} values"


@dataclass(frozen=True)
class Document:
    """One YAML document: `value` (None for an empty one) and `lines`, the 1-based line of every key and item."""

    value: object
    lines: dict[Keys, int]


class YamlSyntaxError(InputError):
    """A text is no YAML."""


def read_yaml(path: Path) -> Document:
    """Reads one YAML file.

    Raises InputError for bad YAML, a second document, a duplicate key, a key that is not a string, an unquoted date,
    `.inf`/`.nan` (no JSON can hold them), tags other than the core schema's, nesting below 100 levels and aliases that
    add more than 100,000 values. OSError passes.
    """
    return built(path, text_of(path, "YAML"), lambda events: Builder(path, events).document())


def text_of(path: Path, kind: str) -> str:
    """A file's text; InputError where it is none. OSError passes."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a {kind} file must be UTF-8 text; byte {error.start} is not; save it as UTF-8") from None


def built(path: Path, text: str, build: Callable[[Iterator[Any]], T]) -> T:
    """What is built of a parser's events; YamlSyntaxError where the text is no YAML."""
    try:
        return build(YAML(typ="safe", pure=True).parse(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlSyntaxError(f"{where}: not valid YAML: {problem}; mend the syntax of this line or the one above") from None


class Builder:
    """Builds values from parser events; one use."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        self._path = path
        self._events = events
        self._anchors: dict[str, tuple[object, dict[Keys, int]]] = {}
        self._open: set[str] = set()
        self._depth = 0
        self._written = 0
        self._copied = 0

    def document(self) -> Document:
        value: object = None
        lines: dict[Keys, int] = {}
        seen = False
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if seen:
                    raise self._error(event, "one document is allowed", "---", "move the second into a file of its own")
                seen = True
                value = self._node(next(self._events), (), lines)
        self._check_size(value)
        return Document(value, lines)

    def _check_size(self, value: object) -> None:
        """What aliases put together out of parts that are each small enough must be so too."""
        depth = total = 0
        # A part that stands in many places is looked at once a level, with how often it stands there.
        level = {id(value): (value, 1)}
        while level:
            depth += 1
            total += sum(times for _, times in level.values())
            if depth > _DEEPEST + 1 or total > self._written + _MOST_COPIES:
                raise InputError(f"{self._path}: {_TOO_MANY}; got aliases of aliases; write out what they stand for")
            below: dict[int, tuple[object, int]] = {}
            for part, times in level.values():
                for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
                    below[id(child)] = (child, below.get(id(child), (None, 0))[1] + times)
            level = below

    def _error(self, event: Any, rule: str, value: object, mend: str) -> InputError:
        return InputError(f"{self._path}:{event.start_mark.line + 1}: {rule}; got {value!r}; {mend}")

    def _node(self, event: Any, at: Keys, lines: dict[Keys, int]) -> object:
        if isinstance(event, AliasEvent):
            return self._alias(event, at, lines)
        anchor = event.anchor
        if anchor is None:
            return self._content(event, at, lines)
        self._open.add(anchor)
        inner: dict[Keys, int] = {}
        value = self._content(event, (), inner)
        self._open.discard(anchor)
        self._anchors[anchor] = (value, inner)
        lines.update((at + keys, line) for keys, line in inner.items())
        return value

    def _alias(self, event: Any, at: Keys, lines: dict[Keys, int]) -> object:
        if event.anchor in self._open:
            raise self._error(event, "an alias must not stand inside its own anchor", f"*{event.anchor}", "write it out")
        if event.anchor not in self._anchors:
            raise self._error(event, "an alias needs an anchor above it", f"*{event.anchor}", f"add &{event.anchor}")
        value, inner = self._anchors[event.anchor]
        self._copied += len(inner) + 1
        if self._copied > _MOST_COPIES:
            raise self._error(event, _TOO_MANY, f"*{event.anchor}", "write out what the aliases stand for")
        lines.update((at + keys, line) for keys, line in inner.items())
        return value

    def _content(self, event: Any, at: Keys, lines: dict[Keys, int]) -> object:
        self._written += 1
        if isinstance(event, ScalarEvent):
            return self._scalar(event)
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            self._foreign(event)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(event, f"values nest at most {_DEEPEST} levels deep", f"level {self._depth}", "flatten them")
        value = self._mapping(at, lines) if isinstance(event, MappingStartEvent) else self._sequence(at, lines)
        self._depth -= 1
        return value

    def _sequence(self, at: Keys, lines: dict[Keys, int]) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            here = (*at, len(items))
            lines[here] = event.start_mark.line + 1
            items.append(self._node(event, here, lines))
        return items

    def _mapping(self, at: Keys, lines: dict[Keys, int]) -> dict[str, object]:
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            if isinstance(event, ScalarEvent) and event.value == "<<" and event.style is None:
                merge_lines: dict[Keys, int] = {}
                sources = self._node(following := next(self._events), (), merge_lines)
                merged |= self._merged(following, sources)
                # Lines of a merged list are keyed by its position; only a single mapping's lines can be told.
                for keys, line in merge_lines.items() if isinstance(sources, dict) else ():
                    lines.setdefault(at + keys, line)
                continue
            key = self._key(event, at)
            here = (*at, key)
            if key in own:
                first = lines[here]
                raise self._error(event, f"a key may stand once; it stands on line {first} too", key, "remove one of them")
            own[key] = None
            for stale in [keys for keys in lines if keys[: len(here)] == here] if key in merged else ():
                del lines[stale]
            lines[here] = event.start_mark.line + 1
            own[key] = self._node(next(self._events), here, lines)
        return merged | own

    def _merged(self, event: Any, sources: object) -> dict[str, object]:
        several = sources if isinstance(sources, list) else [sources]
        result: dict[str, object] = {}
        for source in reversed(several):  # the first of a list wins
            if not isinstance(source, dict):
                raise self._error(event, "<< takes a mapping or a list of mappings", self._told(source), "point it at a mapping")
            result |= source
        return result

    def _key(self, event: Any, at: Keys) -> str:
        if isinstance(event, AliasEvent):
            key = self._alias(event, at, {})
        elif isinstance(event, ScalarEvent):
            key = self._scalar(event)
        else:
            raise self._error(event, "a key must be a scalar", "a mapping or list", "write one word as the key")
        return self._named(event, key)

    def _told(self, value: object) -> object:
        """A value as an error tells it."""
        return value

    def _named(self, event: Any, key: object) -> str:
        """What a scalar is called as a key."""
        if isinstance(key, str):
            return key
        raise self._error(event, "a key must be a string", key, "quote it")

    def _foreign(self, event: Any) -> None:
        """Met a tag that is none of YAML's own."""
        raise self._error(event, "only YAML's core tags are known", event.tag, "remove the tag")

    def _scalar(self, event: Any) -> object:
        text: str = event.value
        if event.style == '"' and _SURROGATE.search(text):
            raise self._error(event, "an escape must name a whole character", self._told(text), "write \\U and eight digits")
        tag = event.tag
        if tag is not None and tag != "!":
            kind = tag.removeprefix(_TAG)
            if kind not in _KINDS:
                self._foreign(event)
                return text
            value: object = text if kind == "str" else self._plain(event, text)
            if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if type(value) is not _KINDS[kind]:
                raise self._error(event, f"!!{kind} needs a value of its kind", self._told(text), "correct the tag or the value")
            return value
        if tag == "!" or event.style is not None:
            return text
        return self._plain(event, text)

    def _plain(self, event: Any, text: str) -> object:
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in "0123456789+-.":
            return text
        if _NOT_JSON.fullmatch(text):
            raise self._error(event, "no configuration can hold an infinite or undefined number", text, "quote it")
        if is_date(text):
            raise self._error(event, "an unquoted date turns into a time of day in UTC", text, "quote it")
        return plain_number(text)


def plain_number(text: str) -> int | float | str:
    """The number that a plain scalar spells, or the text itself where it spells none."""
    # Underscores count for nothing anywhere, except behind a leading point: there they must part digits.
    bare = text.replace("_", "") if text[0] != "." or _PARTED.fullmatch(text) else text
    match = _INTEGER.fullmatch(bare)
    # Python refuses to convert thousands of digits; far fewer are no 64-bit integer already.
    if match and (match["digits"][0] == "0" or len(match["digits"]) <= _MOST_DIGITS):
        value = _integer(match["digits"]) * (-1 if match["sign"] == "-" else 1)
        # What 64 bits cannot hold is read as a float, and a sign bars the unsigned range.
        if _SMALLEST <= value < (_LARGEST if not match["sign"] else -_SMALLEST):
            return value
    if _FLOAT.fullmatch(bare) and math.isfinite(number := float(bare)):
        return number
    return text


def is_date(text: str) -> bool:
    """Whether a plain scalar is a day, or a time of one, for a reader that knows such."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime(*(int(digits) for digits in re.split(r"[-Tt: .Z+]", text)[:6]))  # type: ignore[arg-type]
    except ValueError:
        return False  # no such day or time: the CLI takes the text
    return True


def _integer(digits: str) -> int:
    prefix = digits[:2].lower()
    if prefix in ("0x", "0o", "0b"):
        return int(digits, 0)
    return int(digits, 8) if digits[0] == "0" else int(digits)
