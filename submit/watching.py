"""Follows the objects of one kind: lists them, then watches from there, and lists anew where the watch cannot go on.

The rules are the API's (kubernetes.io, API concepts, "Efficient detection of changes"): a watch goes on from a version, also
from that of a bookmark; a version that is too old is answered with 410, by status or as an event, and calls for a new list.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from submit.errors import Answer, ApiError, SubmitError, UnreachableError
from submit.kinds import Kind
from submit.news import Barred, Changed, Gone, Listed, News, Silent
from submit.objects import Object, number, part, text
from submit.pace import Pace, Pause, passes

if TYPE_CHECKING:
    from submit.cluster import Cluster, Stream

_GONE = 410
_LONG = 60
"""Seconds after which a watch has served its time."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The objects to follow: a kind, and selectors."""

    kind: Kind
    labels: str = ""
    fields: str = ""


class Watcher(threading.Thread):
    """A thread that tells `tell` of every change of the chosen objects until `stop`."""

    def __init__(self, cluster: Cluster, choice: Choice, tell: Callable[[News], None], pace: Pace) -> None:
        super().__init__(name=f"watch {choice.kind.resource}", daemon=True)
        self._cluster = cluster
        self._choice = choice
        self._tell = tell
        self._stopping = threading.Event()
        self._pause = Pause(pace, self._stopping)
        self._stream: Stream | None = None
        self._version = ""
        self._failures = 0
        """Tries that failed, one after another."""

    def stop(self) -> None:
        """End the thread soon."""
        self._stopping.set()
        if self._stream is not None:
            self._stream.close()

    def run(self) -> None:
        """Until stopped, or barred from the kind."""
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except SubmitError as error:
                if self._stopping.is_set():
                    return
                if isinstance(error, ApiError) and error.code == _GONE:
                    self._version = ""
                    # Spaced as well: a server that always says so must not be asked in a loop.
                    self._pause.wait()
                elif passes(error) or (isinstance(error, ApiError) and error.code == 401):
                    self._quiet(error)
                    self._pause.wait(error)
                else:
                    self._tell(Barred(self._choice.kind, error))
                    return

    def _list(self) -> None:
        things, version = self._cluster.list(self._choice.kind, labels=self._choice.labels, fields=self._choice.fields)
        self._loud()
        self._tell(Listed(self._choice.kind, tuple(things)))
        self._version = version

    def _watch(self) -> None:
        choice, began = self._choice, time.monotonic()
        with self._cluster.watch(choice.kind, self._version, labels=choice.labels, fields=choice.fields) as stream:
            self._stream = stream
            self._loud()
            if self._stopping.is_set():
                return
            for event in events(stream):
                self._take(text(event, "type"), part(event, "object"))
        # The server ends each watch after a while; one that it ends at once, again and again, is spaced like a failure.
        if time.monotonic() - began > _LONG:
            self._pause.reset()
        self._pause.wait()

    def _take(self, kind: str, thing: Object) -> None:
        if kind == "ERROR":
            answer = Answer(
                f"watch {self._choice.kind.full}", number(thing, "code"), text(thing, "reason"), text(thing, "message")
            )
            raise ApiError(answer)
        self._pause.reset()
        self._version = text(thing, "metadata", "resourceVersion") or self._version
        if kind in ("ADDED", "MODIFIED"):
            self._tell(Changed(self._choice.kind, thing))
        elif kind == "DELETED":
            self._tell(Gone(self._choice.kind, thing))

    def _quiet(self, error: SubmitError) -> None:
        """A try has failed. The first is not told: connections break in good health too, as load balancers end them."""
        if isinstance(error, UnreachableError) and error.quiet:
            return
        self._failures += 1
        if self._failures > 1:
            self._tell(Silent(self._choice.kind, error))

    def _loud(self) -> None:
        """A try has succeeded."""
        if self._failures > 1:
            self._tell(Silent(self._choice.kind, None))
        self._failures = 0


def events(stream: Stream) -> Iterator[Object]:
    """The events of a watch. What follows the last line end is a torn event: it comes again."""
    held = b""
    for piece in stream:
        *lines, held = (held + piece).split(b"\n")
        for line in filter(None, lines):
            try:
                yield part({"event": json.loads(line)}, "event")
            except ValueError as error:
                raise UnreachableError(
                    "a watch gave no JSON: something between here and the server changes what it says"
                ) from error
