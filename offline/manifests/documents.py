"""Documents of YAML and JSON files, with the line of each key, as kubectl reads them.

kubectl turns YAML into JSON with go-yaml 2 (sigs.k8s.io/yaml): `yes` and `on` are true there, an unquoted date is a text, and a
key that is a number is its text. A tag that nobody knows is an error of an object alone: other programs have files beside it. No
error repeats a value, for it may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml.events import DocumentStartEvent

from fleet.facts.limits import DEEPEST
from offline.errors import InputError, shown
from offline.places import Below, Lines, Place
from offline.yamlread import Builder, built, is_date, text_of

_FLAGS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NO_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_HIDDEN = "…"
_FIRST_LINE = Lines(1)
"""The lines of a document whose lines are not needed."""
_LINE = re.compile(r":(?P<line>[0-9]+): ")
_WORD = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Document:
    """`value`, the 1-based line of every key and item (`()` is where the document begins), and what no object may have in it."""

    value: object
    lines: Lines
    fault: InputError | None = None


def documents(path: Path) -> tuple[Document, ...]:
    """The documents of a file. Raises InputError with file and line for what cannot be read."""
    is_json = path.suffix.lower() == ".json"
    try:
        text = text_of(path, "JSON" if is_json else "YAML")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); check its permissions and size, or leave the file out"
        ) from None
    return _json(path, text) if is_json else _documents(path, text)


# -- YAML --------------------------------------------------------------------------------------------------------------


def _documents(path: Path, text: str) -> tuple[Document, ...]:
    try:
        return built(path, text, lambda events: tuple(_yaml(path, events)))
    except InputError as error:
        if "{{" not in text:
            raise
        at = _LINE.search(str(error), len(str(path)))
        where = f"{path}:{at['line']}" if at else str(path)
        raise InputError(
            f"{where}: not YAML yet, for a template stands there as it is ({{{{ … }}}}); "
            "render the chart with `helm template`, and check what that writes"
        ) from None


def _yaml(path: Path, events: Iterator[Any]) -> Iterator[Document]:
    for event in events:
        if isinstance(event, DocumentStartEvent):
            yield _Reader(path, events).read()


class _Reader(Builder):
    """Builds one document."""

    def __init__(self, path: Path, events: Iterator[Any]) -> None:
        super().__init__(path, events)
        self._fault: InputError | None = None

    def read(self) -> Document:
        """The document whose events come next."""
        value, root = self._root(next(self._events))
        return Document(value, Lines(root), self._fault)

    def _plain(self, event: Any, text: str) -> object:
        if text in _FLAGS:
            return _FLAGS[text]
        if _NO_NUMBER.fullmatch(text) or is_date(text):
            return text
        return super()._plain(event, text)

    def _named(self, event: Any, key: object) -> str:
        if isinstance(key, bool):
            return "true" if key else "false"
        return str(key) if isinstance(key, int | float) else super()._named(event, key)

    def _told(self, value: object) -> object:
        return _HIDDEN

    def _foreign(self, event: Any) -> None:
        self._fault = self._fault or self._error(event, "kubectl knows YAML's own tags alone", event.tag, "remove the tag")


# -- JSON --------------------------------------------------------------------------------------------------------------


def _json(path: Path, text: str) -> tuple[Document, ...]:
    try:
        value = json.loads(text, parse_int=_integer, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        if not text.lstrip().startswith(("{", "[")):
            return _by_its_looks(path, text)
        if '"apiVersion"' not in text:
            # Settings of other programs are called so and have comments.
            return (Document(text.strip()[:1] or None, _FIRST_LINE),)
        raise InputError(f"{path}:{error.lineno}: not valid JSON: {error.msg} in column {error.colno}; fix the syntax") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}:1: not JSON that kubectl can read ({error}); write another value, or fewer levels") from None
    # Most JSON is none of Kubernetes': of that nobody asks a line.
    return (Document(value, _Places(path, text).lines if isinstance(value, dict) and "apiVersion" in value else _FIRST_LINE),)


def _by_its_looks(path: Path, text: str) -> tuple[Document, ...]:
    """Documents of a file that only its name calls JSON: kubectl asks whether it begins with a brace."""
    try:
        found = _documents(path, text)
    except InputError:
        if "apiVersion" in text:
            raise
        return (Document(text.strip()[:1] or None, _FIRST_LINE),)
    if '"apiVersion"' in text and not any(isinstance(each.value, dict | list) for each in found):
        raise InputError(f"{path}:1: neither JSON nor YAML with an object in it, though it has an apiVersion; take comments away")
    return found


class _Places:
    """The place of every key and item of a valid JSON text: `lines`.

    Raises InputError for a key that stands twice, and for what nests deeper than YAML may.
    """

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._words = ((match[0], match.start()) for match in _WORD.finditer(text))
        self._text = text
        self._line, self._at, self._depth = 1, 0, 0
        self.lines = Lines(self._value(*next(self._words)))

    def _go_to(self, start: int) -> None:
        self._line += self._text.count("\n", self._at, start)
        self._at = start

    def _value(self, word: str, start: int) -> Place:
        self._go_to(start)
        if self._depth > DEEPEST:
            raise InputError(f"{self._path}:{self._line}: values nest at most {DEEPEST} levels deep; flatten them")
        line = self._line
        self._depth += 1
        below = self._object() if word == "{" else self._list() if word == "[" else None
        self._depth -= 1
        return (line, below) if below else line

    def _object(self) -> Below:
        places: dict[str, Place] = {}
        for word, start in self._words:
            if word == "}":
                break
            if word == ",":
                continue
            self._go_to(start)
            key, line = json.loads(word), self._line
            if key in places:
                first = Lines((0, places))[key,]
                where = f"{self._path}:{line}"
                raise InputError(
                    f"{where}: a key may stand once; it stands on line {first} too; got {shown(key)}; remove one of them"
                )
            next(self._words)  # the colon
            place = self._value(*next(self._words))
            # An entry is where its key is, though its value may begin on the next line.
            places[key] = line if isinstance(place, int) else (line, place[1])
        return places

    def _list(self) -> Below:
        places: list[Place] = []
        for word, start in self._words:
            if word == "]":
                break
            if word != ",":
                places.append(self._value(word, start))
        return places


def _integer(digits: str) -> int | float:
    # Python refuses thousands of digits; far fewer are no integer of Kubernetes' already.
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
