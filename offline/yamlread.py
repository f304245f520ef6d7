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

from fleet.facts.limits import LimitError, bounded, read_bytes
from offline.errors import InputError, shown
from offline.places import Below, Lines, Place

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


@dataclass(frozen=True)
class Document:
    """One YAML document: `value` (None for an empty one) and `lines`, the 1-based line of every key and item.

    The empty path in `lines` is where the document begins.
    """

    value: object
    lines: Lines


_NOTHING: Below = {}
"""The places in a scalar."""


class YamlSyntaxError(InputError):
    """A text is no YAML."""


def read_yaml(path: Path) -> Document:
    """Reads one YAML file.

    Raises InputError for bad YAML, a second document, a duplicate key, a key that is not a string, an unquoted date,
    `.inf`/`.nan` (no JSON can hold them), tags other than the core schema's, nesting below 100 levels and aliases that
    add more than 100,000 values. OSError passes, also for a file that `fleet.facts.limits` does not allow.
    """
    return built(path, text_of(path, "YAML"), lambda events: Builder(path, events).document())


def text_of(path: Path, kind: str) -> str:
    """A file's text; InputError where it is none. OSError passes, also for a file that `fleet.facts.limits` does not allow."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a {kind} file must be UTF-8 text; byte {error.start} is not; save it as UTF-8") from None


def built(path: Path, text: str, build: Callable[[Iterator[Any]], T]) -> T:
    """What is built of a parser's events; YamlSyntaxError where the text is no YAML, InputError beyond a limit."""
    try:
        return build(bounded(YAML(typ="safe", pure=True).parse(text)))
    except LimitError as error:
        raise InputError(f"{path}:{error.line}: {error}") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlSyntaxError(f"{where}: not valid YAML: {problem}; fix the syntax of this line or the one above") from None


class Builder:
    """Builds values from parser events, and beside each value the places of what is in it; one use."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        self._path = path
        self._events = events
        self._anchors: dict[str, tuple[object, Below]] = {}

    def document(self) -> Document:
        """The one document of a file."""
        value: object = None
        root: Place = 1
        seen = False
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if seen:
                    raise self._error(event, "one document is allowed", "---", "move the second into a file of its own")
                seen = True
                value, root = self._root(next(self._events))
        return Document(value, Lines(root))

    def _root(self, event: Any) -> tuple[object, Place]:
        """A document's value and where it begins."""
        value, below = self._node(event)
        return value, _place(event, below)

    def _error(self, event: Any, rule: str, value: object, mend: str) -> InputError:
        return InputError(f"{self._path}:{event.start_mark.line + 1}: {rule}; got {shown(value)}; {mend}")

    def _node(self, event: Any) -> tuple[object, Below]:
        """A value, and the places of what is in it: none in a scalar."""
        if isinstance(event, AliasEvent):
            return self._alias(event)
        found = self._content(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = found
        return found

    def _alias(self, event: Any) -> tuple[object, Below]:
        if event.anchor not in self._anchors:
            raise self._error(event, "an alias needs an anchor above it", f"*{event.anchor}", f"add &{event.anchor}")
        return self._anchors[event.anchor]

    def _content(self, event: Any) -> tuple[object, Below]:
        if isinstance(event, ScalarEvent):
            return self._scalar(event), _NOTHING
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            self._foreign(event)
        return self._mapping() if isinstance(event, MappingStartEvent) else self._sequence()

    def _sequence(self) -> tuple[list[object], Below]:
        items: list[object] = []
        places: list[Place] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            value, below = self._node(event)
            items.append(value)
            places.append(_place(event, below))
        return items, places

    def _mapping(self) -> tuple[dict[str, object], Below]:
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        places: dict[str, Place] = {}
        elsewhere: dict[str, Place] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            if isinstance(event, ScalarEvent) and event.value == "<<" and event.style is None:
                sources, below = self._node(following := next(self._events))
                merged |= self._merged(following, sources)
                # A list of sources has its places by position, of which nothing is asked here.
                elsewhere |= below if isinstance(below, dict) else {}
                continue
            key = self._key(event)
            if key in own:
                first = Lines((0, places))[key,]
                raise self._error(event, f"a key may stand once; it stands on line {first} too", key, "remove one of them")
            own[key], below = self._node(next(self._events))
            places[key] = _place(event, below)
        return merged | own, elsewhere | places

    def _merged(self, event: Any, sources: object) -> dict[str, object]:
        several = sources if isinstance(sources, list) else [sources]
        result: dict[str, object] = {}
        for source in reversed(several):  # the first of a list wins
            if not isinstance(source, dict):
                raise self._error(event, "<< takes a mapping or a list of mappings", self._told(source), "point it at a mapping")
            result |= source
        return result

    def _key(self, event: Any) -> str:
        if isinstance(event, AliasEvent):
            key, _ = self._alias(event)
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


def _place(event: Any, below: Below) -> Place:
    line: int = event.start_mark.line + 1
    return (line, below) if below else line


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
