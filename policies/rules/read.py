"""Reading resource properties as the wire gives them.

Properties are plain data (`record.py`): numbers are floats, keys are camelCase. Reading a value that is unknown in preview raises
UnknownError; keys and lengths are safe to read. Any other exception would end the whole run, so nothing here raises one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from fleet.facts.credentials import mask
from fleet.facts.quantities import HUGE, quantity
from fleet.facts.record import Same

from .record import Data, Unknown, UnknownError

__all__ = ["Data"]

P = ParamSpec("P")
T = TypeVar("T")
Faults = Iterator[str]
Found = Iterator[tuple[str, Data]]
"""Paths, each with its value."""
Named = Iterator[tuple[str, str]]
"""Paths, or names, each with a text."""
"""Messages of violations."""


class UndeterminableError(UnknownError):
    """The resources of a stack do not show what a rule needs to know, although no value is unknown. `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(Unknown((message,)))
        self.message = message


class Later:
    """Collects unknown values: `with later:` swallows UnknownError and keeps the first one; `settle` raises it.

    It is true once it has met an unknown value. A rule judges each part under `with` and gives the violations that are certain.
    """

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: UnknownError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, UnknownError):
            return False
        self.note(error)
        return True

    def __bool__(self) -> bool:
        return self.first is not None

    def note(self, error: UnknownError | None) -> None:
        """Keep an unknown value, if it is the first one."""
        self.first = self.first or error

    def join(self, source: "Later") -> None:
        """Keep the unknown value of another one."""
        self.note(source.first)

    def clear(self, source: "Later") -> bool:
        """Whether another one met no unknown value, so that what it was asked about is certain. Keeps its value if it did."""
        self.join(source)
        return not source

    def get(self, read: Callable[[], T], otherwise: T) -> T:
        """What a function reads, or `otherwise` if that is unknown."""
        with self:
            return read()
        return otherwise

    def walk(self, value: Data, *path: str) -> Data:
        """What the function `walk` reads; None if that is unknown."""
        try:
            return walk(value, *path)
        except UnknownError as error:
            self.note(error)
        return None

    def settle(self) -> None:
        """Raise the first unknown value, if there was one."""
        if self.first is not None:
            raise self.first


class _Settled(Later):
    """Raises an unknown value as soon as it is met."""

    __slots__ = ()

    def note(self, error: UnknownError | None) -> None:
        if error is not None:
            raise error


SETTLED = _Settled()
"""What a reader gets in place of a `Later` if all that it reads must be known."""


class _Noted(Later):
    """Keeps each unknown value in its place among what was read."""

    __slots__ = ("events",)

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def note(self, error: UnknownError | None) -> None:
        super().note(error)
        if error is not None:
            self.events.append(error)


def once(read: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """A reader whose last argument is a `Later`, which reads the same objects once. A caller gets what it found in its order."""

    @lru_cache(maxsize=4096)
    def events(*of: Same) -> tuple[Any, ...]:
        noted = _Noted()
        for thing in read(*(same.value for same in of), noted):  # type: ignore[call-arg, arg-type]
            noted.events.append(thing)
        return tuple(noted.events)

    @wraps(read)
    def again(*of: P.args, **_: P.kwargs) -> Iterator[T]:
        for event in events(*map(Same, of[:-1])):
            if isinstance(event, UnknownError):
                of[-1].note(event)  # type: ignore[attr-defined]
            else:
                yield event

    return again


def provided(holds: bool, hidden: Later, faults: Callable[[Later], Iterable[T]], later: Later) -> Iterator[T]:
    """The faults, if a condition holds. If an unknown value (`hidden`) decides whether it holds, `later` collects it instead."""
    if not (holds or hidden):
        return
    unsure = Later()
    messages = list(faults(unsure))
    if holds:
        yield from messages
        later.join(unsure)
    elif messages or unsure:
        later.join(hidden)


def some(things: Callable[[Later], Iterable[T]], test: Callable[[T], object], later: Later) -> bool:
    """Whether one of the things passes the test. If an unknown value decides, `later` collects it."""
    unsure = Later()
    for thing in things(unsure):
        with unsure:
            if test(thing):
                return True
    later.join(unsure)
    return False


def known(value: Data) -> Data:
    """The value. Raises UnknownError if a preview does not know it."""
    if type(value) is Unknown:
        raise UnknownError(value)
    return value


def walk(value: Data, *path: str) -> Data:
    """The value under nested object keys; None if a key is missing or a value is not an object. Raises UnknownError."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
        if type(value) is Unknown:
            raise UnknownError(value)
    return value


def items(value: Data, later: Later) -> Iterator[tuple[int, Data]]:
    """Index and item of a list, none for anything else. `later` collects unknown items."""
    for index in range(count(value)):
        if type(value[index]) is Unknown:
            later.note(UnknownError(value[index]))
        else:
            yield index, value[index]


def entries(holder: Data, path: str, later: Later) -> Iterator[tuple[str, Data]]:
    """Path ("a.b[0]") and each item of the list at a path of an object (`places`). `later` collects unknown values."""
    return places(holder, f"{path}.[]", later)


def places(value: Data, path: str, later: Later) -> Iterator[tuple[str, Data]]:
    """Path ("a[0].b") and value of everything at a dotted path such as "a.[].b", in which "[]" is each item of a list.

    A last step that is missing has the value None. `later` collects unknown values.
    """
    return _places(value, path.split("."), later, "")


def _places(value: Data, path: Sequence[str], later: Later, here: str) -> Iterator[tuple[str, Data]]:
    if not path:
        yield here, value
    elif path[0] == "[]":
        for index, item in items(value, later):
            yield from _places(item, path[1:], later, f"{here}[{index}]")
    else:
        with later:
            yield from _places(walk(value, path[0]), path[1:], later, f"{here}.{path[0]}" if here else path[0])


@lru_cache(maxsize=512)
def parsed(document: str, loads: Callable[[str], Data] = json.loads) -> Data:
    """What a document says; None if it is longer than any that a cloud accepts, or not JSON (or what `loads` reads).

    User data has at most 16 KiB (EC2 user guide), a policy document 10,240 characters (AWS).
    """
    try:
        return loads(document) if len(document) <= 65536 else None
    except (ValueError, RecursionError):
        return None


def statements(document: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path ("Statement[0]") and body of each statement of a policy document of IAM with effect Allow. One alone needs no list."""
    body = walk(parsed(document) if isinstance(document, str) else document, "Statement")
    single = [(0, body)] if keys(body) else []
    for index, statement in single or items(body, later):
        if text(walk(statement, "Effect")) == "Allow":
            yield f"Statement[{index}]", statement


def listed(value: Data, later: Later) -> tuple[str, ...]:
    """The strings of a value that is a string or a list of strings: IAM accepts both."""
    return (value,) if isinstance(value, str) else tuple(text(item) for _, item in items(value, later))


def gpus(number: int) -> str:
    """A number of GPUs, for a message."""
    return f"{number} GPU{'' if number == 1 else 's'}"


def count(value: Data) -> int:
    """The length of a list, 0 for anything else; its items may be unknown."""
    return len(value) if isinstance(value, (list, tuple)) else 0


def keys(value: Data) -> tuple[str, ...]:
    """The keys of an object, none for anything else; their values may be unknown. Sorted, because the wire has no order."""
    return tuple(sorted(value)) if isinstance(value, dict) else ()


def text(value: Data) -> str:
    """The string, or "" for anything else."""
    return value if isinstance(value, str) else ""


def label(value: Data) -> str:
    """A label's value as Kubernetes would store it: an unquoted true, false or number of YAML becomes text."""
    return shown(value) if isinstance(value, (bool, int, float)) else text(value)


def true(value: Data) -> bool:
    """Whether a flag is on: true, or "true" as some providers write it."""
    return value is True or text(value).lower() == "true"


def whole(value: Data) -> int | None:
    """The quantity as an int, or None if it is not a whole number."""
    return int(number) if (number := quantity(value)) is not None and number.denominator == 1 else None


def bound(config: Mapping[str, Data], name: str) -> int:
    """A whole number from a rule's config."""
    return whole(config.get(name)) or 0


def strings(config: Mapping[str, Data], name: str) -> tuple[str, ...]:
    """A list of strings from a rule's config, which has no unknown values."""
    return tuple(text(item) for _, item in items(config.get(name), Later()))


def shown(value: Data) -> str:
    """A value for a message: 1 for 1.0, strings quoted and cut to 60 characters, no content of objects and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, str):
        return f'"{line(value)}"'
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "not set" if value is None else "of another kind"


@lru_cache(maxsize=512)
def line(value: str, most: int = 60) -> str:
    """A name for a message: credentials masked, cut to `most` characters, escaped so that it stays on one line."""
    masked = mask(value)
    cut = masked if len(masked) <= most else f"{masked[:most]}…"
    return cut if cut.isprintable() else json.dumps(cut)[1:-1]


def _number(value: float) -> str:
    if not abs(value) < HUGE:
        return "out of range"
    return str(int(value)) if value == int(value) else repr(value)
