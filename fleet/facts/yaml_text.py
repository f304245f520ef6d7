"""Reads and writes YAML. No other module uses a YAML library. The published policy pack contains this module.

`read_yaml` reads a file as the Pulumi CLI does, `kubernetes_documents` and `helm_values` read a text as kubectl and Helm do
(`yaml_scalars` lists the differences). All of them reject a duplicate key, deep nesting, and aliases that add too many values.
Of PyYAML only the scanner and parser are used. This module builds the values, so that one schema applies and each key has its
line.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fleet.facts.errors import InputError, quoted
from fleet.facts.limits import read_bytes
from fleet.facts.places import Below, Lines, Place
from fleet.facts.yaml_scalars import CONSTANTS, FLAGS, NOT_JSON, is_date, plain_number

YAMLError = yaml.YAMLError
"""The error of PyYAML. The Kubernetes client raises it too."""
DEEPEST = 100
"""The most levels of mappings and lists. The Pulumi CLI's limit is 10,000; settings have far fewer."""
MOST_COPIES = 100_000
"""The most values that aliases may add. A few lines of aliases of aliases can add more values than fit into memory."""
LONGEST = 65_536
"""The most characters that `helm_values` reads, because parsing is slow. Values have a few hundred lines."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, if this PyYAML was built with it: five times faster
_TAG = "tag:yaml.org,2002:"
_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}
_NOTHING: Below = {}
"""The places in a scalar."""


class Document(NamedTuple):
    """One document: its value (None if it is empty) and the 1-based line of every key and item. `()` has its first line.

    `fault` is the error to raise if the document is a Kubernetes object.
    """

    value: object
    lines: Lines
    fault: InputError | None = None


# -- Reading -----------------------------------------------------------------------------------------------------------


def text_of(path: Path, kind: str = "YAML") -> str:
    """A file's text. Raises InputError if it is not UTF-8, and OSError, also beyond the limits of `fleet.facts.limits`."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a {kind} file must be UTF-8 text; byte {error.start} is not; save it as UTF-8") from None


def read_yaml(path: Path) -> Document:
    """Read a file with one document as the Pulumi CLI does.

    Raises InputError for invalid YAML, a second document, a duplicate key, a key that is not a string, an unquoted date,
    `.inf`/`.nan` (JSON has neither) and tags other than the core schema's. Also for more than 100 levels, and for aliases that
    add more than 100,000 values. Raises OSError as `text_of` does.
    """
    return document_of(str(path), text_of(path))


def document_of(path: str, text: str) -> Document:
    """Read the text of such a file. `path` is for errors. Raises InputError as `read_yaml` does."""
    reader = _Reader(path, text)
    document = Document(None, Lines(1))
    for number, start in enumerate(reader.starts()):
        if number:
            raise reader.error(start, "one document is allowed", "---", "move the second into a file of its own")
        document = reader.document()
    return document


def kubernetes_documents(path: str, text: str) -> tuple[Document, ...]:
    """The documents of a text as kubectl reads them. Raises InputError as `read_yaml` does; no error repeats a value.

    Keys are texts. A tag that kubectl does not know is the `fault` of its document: other programs' files may have such tags.
    """
    reader = _KubernetesReader(path, text)
    return tuple(reader.document() for _ in reader.starts())


@lru_cache(maxsize=128)
def helm_values(text: str) -> Any:
    """The values that Helm would read from a text, each number as a float, as resources have them; {} for an empty text.

    None for everything that is not one document of plain values: invalid YAML, more than `LONGEST` characters, aliases beyond
    the limits, foreign tags, merge keys.
    """
    if len(text) > LONGEST:
        return None
    reader = _ValuesReader("values", text)
    try:
        documents = [reader.document() for _ in reader.starts()]
    except InputError:
        return None
    if not documents:
        return {}
    return documents[0].value if len(documents) == 1 and not documents[0].fault else None


_FIXES = {
    r"'\t'": "indent by spaces, not by tabs",
    "<block end>": "give all keys of a mapping the same indentation: those of this line and of the lines above",
}
"""How to fix what the parser says, by a part of it."""


def _events(path: str, text: str) -> Iterator[Any]:
    """The parser's events. Raises InputError."""
    try:
        yield from _parsed(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else path
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        fix = next((fix for sign, fix in _FIXES.items() if sign in problem), "fix the syntax of this line or the one above")
        raise InputError(f"{where}: not valid YAML: {problem}; {fix}") from None
    except (ValueError, OverflowError):
        # An escape beyond Unicode, or a version of thousands of digits.
        raise InputError(f"{path}: not valid YAML: a number in an escape or directive is too large; correct it") from None


def _parsed(text: str) -> Iterator[Any]:
    """The parser's events. Where libyaml fails, PyYAML's own parser goes on: it accepts more, and its errors are clearer."""
    count = 0
    try:
        for event in yaml.parse(text, Loader=_FAST):
            count += 1
            yield event
    except YAMLError:
        yield from islice(yaml.parse(text, Loader=yaml.SafeLoader), count, None)


class _Node(NamedTuple):
    """What an event begins: the value, the places in it, and for aliases its number of values and its levels.

    A mapping or list that is not complete yet has no levels.
    """

    value: object
    below: Below = _NOTHING
    size: int = 1
    levels: int | None = 0


class _Reader:
    """Builds values and their places from parser events, as the Pulumi CLI reads a file.

    Time and memory depend on the length of the text, not on the number of values that aliases add.
    """

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._events = _events(path, text)
        self._anchors: dict[str, _Node] = {}
        self._fault: InputError | None = None
        self._depth = self._copied = 0

    def starts(self) -> Iterator[Any]:
        """The first event of each document. Read a document before you ask for the next one."""
        return (event for event in self._events if isinstance(event, yaml.DocumentStartEvent))

    def document(self) -> Document:
        """The document that has just begun."""
        self._anchors, self._fault = {}, None
        event = next(self._events)
        node = self._node(event)
        return Document(node.value, Lines(_place(event, node)), self._fault)

    def error(self, event: Any, rule: str, value: object, fix: str) -> InputError:
        """The error of a rule at an event's line."""
        return InputError(f"{self._path}:{event.start_mark.line + 1}: {rule}; got {quoted(value)}; {fix}")

    def _node(self, event: Any) -> _Node:
        """The value that begins with an event. Raises InputError if aliases add too many values, or values nest too deep."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        node = _Node(self._scalar(event)) if isinstance(event, yaml.ScalarEvent) else self._collection(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> _Node:
        if event.anchor not in self._anchors:
            raise self.error(event, "an alias needs an anchor above it", f"*{event.anchor}", f"add &{event.anchor}")
        if (node := self._anchors[event.anchor]).levels is None:
            raise self._beyond(event, "an alias must not be inside its own anchor", f"*{event.anchor}", "write it out")
        self._copied += node.size
        if self._copied > MOST_COPIES:
            rule = f"aliases add at most {MOST_COPIES:,} values"
            raise self._beyond(event, rule, f"*{event.anchor}", "write out what the aliases stand for")
        self._bound(event, node.levels)
        return node

    def _bound(self, event: Any, levels: int) -> None:
        if (level := self._depth + levels) > DEEPEST:
            raise self._beyond(event, f"values nest at most {DEEPEST} levels deep", f"level {level}", "flatten them")

    def _beyond(self, event: Any, rule: str, value: str, fix: str) -> InputError:
        return InputError(f"{self._path}:{event.start_mark.line + 1}: {rule}; got {value}; {fix}")

    def _collection(self, event: Any) -> _Node:
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            self._foreign(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Node(None, levels=None)
        self._depth += 1
        self._bound(event, 0)
        node = self._mapping() if isinstance(event, yaml.MappingStartEvent) else self._sequence()
        self._depth -= 1
        return node

    def _sequence(self) -> _Node:
        items: list[object] = []
        places: list[Place] = []
        size, levels = 1, 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node = self._node(event)
            items.append(node.value)
            places.append(_place(event, node))
            size, levels = size + node.size, max(levels, node.levels or 0)
        return _Node(items, places, size, levels + 1)

    def _mapping(self) -> _Node:
        entries: dict[str, object] = {}
        merged: dict[str, object] = {}
        places: dict[str, Place] = {}
        elsewhere: dict[str, Place] = {}
        size, levels = 1, 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style
            if (key := "" if is_merge else self._key(event)) in entries and not is_merge:
                first = Lines((0, places))[key,]
                raise self.error(event, f"a key may appear once, and line {first} has it too", key, "remove one of them")
            node = self._node(following := next(self._events))
            size, levels = size + node.size, max(levels, node.levels or 0)
            if is_merge:
                merged |= self._merged(following, node.value)
                # The places in a list of sources are by position, and are not kept.
                elsewhere |= node.below if isinstance(node.below, dict) else {}
            else:
                entries[key] = node.value
                places[key] = _place(event, node)
        return _Node(merged | entries, elsewhere | places, size, levels + 1)

    def _merged(self, event: Any, sources: object) -> dict[str, object]:
        several = sources if isinstance(sources, list) else [sources]
        result: dict[str, object] = {}
        for source in reversed(several):  # the first of a list wins
            if not isinstance(source, dict):
                rule = "<< needs a mapping or a list of mappings"
                raise self.error(event, rule, self._shown(source), "point it at a mapping")
            result |= source
        return result

    def _key(self, event: Any) -> str:
        if isinstance(event, yaml.AliasEvent):
            key = self._alias(event).value
        elif isinstance(event, yaml.ScalarEvent):
            key = self._scalar(event)
        else:
            raise self.error(event, "a key must be a scalar", "a mapping or list", "write one word as the key")
        return self._key_text(event, key)

    def _scalar(self, event: Any) -> object:
        text: str = event.value
        if event.style == '"' and _SURROGATE.search(text):
            raise self.error(event, "an escape must name a whole character", self._shown(text), "write \\U and eight digits")
        if (tag := event.tag) is None or tag == "!":
            return text if tag or event.style else self._plain(event, text)
        if (kind := tag.removeprefix(_TAG)) not in _KINDS:
            self._foreign(event)
            return text
        value: object = text if kind == "str" else self._plain(event, text)
        if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not _KINDS[kind]:
            raise self.error(event, f"!!{kind} needs a value of its kind", self._shown(text), "correct the tag or the value")
        return value

    # Subclasses replace the methods below, because readers differ in them.

    def _plain(self, event: Any, text: str) -> object:
        """The value of a plain scalar."""
        if text in CONSTANTS:
            return CONSTANTS[text]
        if text[0] not in "0123456789+-.":
            return text
        if NOT_JSON.fullmatch(text):
            raise self.error(event, "a configuration cannot contain an infinite or undefined number", text, "quote it")
        if is_date(text):
            raise self.error(event, "an unquoted date turns into a time of day in UTC", text, "quote it")
        return plain_number(text)

    def _key_text(self, event: Any, key: object) -> str:
        """The text of a scalar that is a key."""
        if isinstance(key, str):
            return key
        raise self.error(event, "a key must be a string", key, "quote it")

    def _foreign(self, event: Any) -> None:
        """Handle a tag that YAML itself does not define."""
        raise self.error(event, "only YAML's core tags are supported", event.tag, "remove the tag")

    def _shown(self, value: object) -> object:
        """The value as errors show it."""
        return value


class _KubernetesReader(_Reader):
    """As kubectl reads a manifest. No error shows a value, because it may be a secret."""

    def _plain(self, event: Any, text: str) -> object:
        if text in FLAGS:
            return FLAGS[text]
        return text if NOT_JSON.fullmatch(text) or is_date(text) else super()._plain(event, text)

    def _key_text(self, event: Any, key: object) -> str:
        if isinstance(key, bool):
            return "true" if key else "false"
        return str(key) if isinstance(key, int | float) else super()._key_text(event, key)

    def _foreign(self, event: Any) -> None:
        self._fault = self._fault or self.error(event, "kubectl supports only YAML's own tags", event.tag, "remove the tag")

    def _shown(self, value: object) -> object:
        return "…"


class _ValuesReader(_KubernetesReader):
    """As Helm reads values."""

    def _node(self, event: Any) -> _Node:
        node = super()._node(event)
        return node._replace(value=float(node.value)) if type(node.value) is int else node

    def _merged(self, event: Any, sources: object) -> dict[str, object]:
        raise self.error(event, "merge keys are not read", "<<", "write the keys out")


def _place(event: Any, node: _Node) -> Place:
    line: int = event.start_mark.line + 1
    return (line, node.below) if node.below else line


# -- Places of text --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Where a value is in its text, as offsets of characters.

    Its key is from `at` to `key_end`; without a key both are `start`. The value is from `start` to `end`, without what follows
    on the line. `kind` is block, flow, scalar or alias. `parts` are the values in it by key or index; a merge key is "<<".
    """

    at: int
    key_end: int
    start: int
    end: int
    kind: str
    parts: "Mapping[str | int, Part]" = {}  # noqa: RUF012 - a named tuple has no class attributes


@lru_cache(maxsize=4)
def parts_of(text: str) -> Part:
    """The parts of a text that `document_of` accepts."""
    events = yaml.parse(text, Loader=yaml.SafeLoader)  # libyaml counts no characters
    next(event for event in events if isinstance(event, yaml.DocumentStartEvent))
    return _part(text, events, next(events))


def _part(text: str, events: Iterator[Any], event: Any, key: Any = None) -> Part:
    """The part that an event begins."""
    start, end, parts = event.start_mark.index, event.end_mark.index, dict[str | int, Part]()
    at, key_end = (start, start) if key is None else (key.start_mark.index, key.end_mark.index)
    if not isinstance(event, yaml.CollectionStartEvent):
        end = start + len(text[start:end].rstrip())  # a block scalar ends where the next line begins
        return Part(at, key_end, start, end, "alias" if isinstance(event, yaml.AliasEvent) else "scalar")
    while not isinstance(inner := next(events), yaml.CollectionEndEvent):
        if isinstance(event, yaml.MappingStartEvent):
            name = inner.anchor if isinstance(inner, yaml.AliasEvent) else inner.value
            parts[name] = _part(text, events, next(events), inner)
        else:
            parts[len(parts)] = _part(text, events, inner)
        end = parts[[*parts][-1]].end
    end = inner.end_mark.index if event.flow_style else end
    return Part(at, key_end, start, end, "flow" if event.flow_style else "block", parts)


# -- Writing -----------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z/][A-Za-z0-9_./@= -]*(:[A-Za-z0-9_./@-]+)*")
_RESERVED = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
"""Words that YAML 1.1 or 1.2 does not read as text."""


def yaml_text(document: Mapping[str, Any] | list[Any], *, flow: bool = False) -> str:
    """The document in block style with its keys in order. Readers of YAML 1.1 and 1.2 read it in the same way.

    `flow` puts it on one line in braces or brackets.
    """
    style = {"sort_keys": False, "default_flow_style": flow, "width": 4096, "allow_unicode": True}
    text: str = yaml.dump(plain(document), Dumper=_Writer, **style)
    return text


def scalar(text: str) -> str:
    """A text as YAML on one line, in quotes if a reader could take it for something else."""
    return yaml_text([text], flow=True).strip()[1:-1]


class _Writer(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Quotes every text that a reader could take for a boolean, a number or a time."""

    def text(self, data: str) -> Any:
        """A text as a scalar node."""
        # A reader drops a space at an end of an unquoted text.
        plain_word = _WORD.fullmatch(data) and data.lower() not in _RESERVED and data == data.strip()
        several = "\n" in data and all(line.isprintable() for line in data.split("\n"))
        return self.represent_scalar(f"{_TAG}str", data, style=None if plain_word else "|" if several else '"')


_Writer.add_representer(str, _Writer.text)


def plain(thing: Any) -> Any:
    """A copy as plain dicts and lists, which JSON and YAML writers accept."""
    if isinstance(thing, Mapping):
        return {str(key): plain(value) for key, value in thing.items()}
    return [plain(item) for item in thing] if isinstance(thing, list | tuple) else thing
