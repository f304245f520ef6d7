"""What the followers' threads tell the one that judges and shows: messages, each a small frozen object."""

from __future__ import annotations

from dataclasses import dataclass

from submit.errors import SubmitError
from submit.kinds import Kind
from submit.objects import Object


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of a kind that there are now: what is not among them is gone."""

    kind: Kind
    things: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """An object is new or has changed."""

    kind: Kind
    thing: Object


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted; `thing` is how it was last."""

    kind: Kind
    thing: Object


@dataclass(frozen=True, slots=True)
class Happened:
    """Events (the API's) of an object, by its uid."""

    uid: str
    events: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a container's log."""

    pod: str
    container: str
    text: str


@dataclass(frozen=True, slots=True)
class LogLate:
    """A container's log cannot be read at the moment, and will be tried again."""

    container: str
    why: str


@dataclass(frozen=True, slots=True)
class LogEnded:
    """Nothing more comes of a container's log; `why` where that is not its end."""

    uid: str
    container: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Silent:
    """A kind cannot be watched at the moment, since `error`; None: it can again."""

    kind: Kind
    error: SubmitError | None


@dataclass(frozen=True, slots=True)
class Barred:
    """A kind cannot be watched at all: no right to, or the cluster does not have it."""

    kind: Kind
    error: SubmitError


News = Listed | Changed | Gone | Happened | Line | LogLate | LogEnded | Silent | Barred
