"""Follows the objects of one kind: lists them, watches from there, and lists again when the watch cannot continue.

These are the rules of the API (kubernetes.io, API concepts, "Efficient detection of changes"): a watch continues from a
resourceVersion, also from the one of a bookmark. The server refuses a version that is too old with 410, as a status or as an
event; the client must list again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_ci.submit.errors import ApiError, SubmitError, UnreachableError
from gpu_ci.submit.objects import Kind, Object, number, parsed, part, text
from gpu_ci.submit.reader import StreamReader

_LONG = 60
"""Seconds after which the end of a watch is normal."""


@dataclass(frozen=True, slots=True)
class Update:
    """Objects of a kind changed (created ones included), were deleted, or were listed: objects not in the list do not exist."""

    kind: Kind
    change: Literal["listed", "changed", "deleted"]
    objects: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """A kind cannot be watched at the moment because of `error`, can be watched again (None), or never can (`permanent`)."""

    kind: Kind
    error: SubmitError | None
    permanent: bool = False


@dataclass(eq=False)
class Watcher(StreamReader):
    """Reports every change of the selected objects."""

    kind: Kind
    selector: Mapping[str, str]
    _version: str = ""
    _failures: int = 0
    """Consecutive failures. Only the second is reported: load balancers cut connections of healthy clusters."""

    def run(self) -> None:
        """Watch until stopped, or until the server refuses it for good."""
        while not self.stopping.is_set():
            try:
                if not self._version:
                    objects, version = self.cluster.list(self.kind, self.selector)
                    self._succeeded()
                    self.report(Update(self.kind, "listed", tuple(objects)))
                    self._version = version
                self._watch()
            except SubmitError as error:
                if self.stopping.is_set():
                    return
                if error.code == 410:
                    self._version = ""
                elif not error.temporary and error.code != 401:
                    self.report(WatchStatus(self.kind, error, permanent=True))
                    return
                elif not error.idle:
                    self._failures += 1
                    if self._failures > 1:
                        self.report(WatchStatus(self.kind, error))
                self.backoff.wait(error)

    def _watch(self) -> None:
        began = time.monotonic()
        with self.cluster.watch(self.kind, self.selector, self._version) as self.stream:
            self._succeeded()
            if self.stopping.is_set():
                return
            for line in self.stream:
                # A line without an end is cut off; the next watch repeats it.
                if line.endswith(b"\n") and line.strip():
                    self._take(line)
        # The server ends each watch after some minutes. Ends in quick succession need the same pauses as failures.
        if time.monotonic() - began > _LONG:
            self.backoff.reset()
        self.backoff.wait()

    def _take(self, line: bytes) -> None:
        event = parsed(line)
        if event is None:
            raise UnreachableError("a watch returned no JSON: a proxy before the server changes its responses")
        kind, thing = text(event, "type"), part(event, "object")
        if kind == "ERROR":
            request = f"watch {self.kind.full_name}"
            raise ApiError(request, number(thing, "code"), text(thing, "reason"), text(thing, "message"))
        self.backoff.reset()
        self._version = text(thing, "metadata", "resourceVersion") or self._version
        if kind != "BOOKMARK":
            self.report(Update(self.kind, "deleted" if kind == "DELETED" else "changed", (thing,)))

    def _succeeded(self) -> None:
        if self._failures > 1:
            self.report(WatchStatus(self.kind, None))
        self._failures = 0
