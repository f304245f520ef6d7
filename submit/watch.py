"""Follows the objects of one kind: lists them, watches from there, and lists again when the watch cannot continue.

These are the rules of the API (kubernetes.io, API concepts, "Efficient detection of changes"): a watch continues from a
resourceVersion, also from the one of a bookmark. The server refuses a version that is too old with 410, as a status or as an
event; the client must list again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from submit.errors import ApiError, SubmitError, UnreachableError
from submit.objects import Kind, Object, number, part, text
from submit.options import Timing
from submit.reader import StreamReader

if TYPE_CHECKING:
    from submit.cluster import Cluster

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


class Watcher(StreamReader):
    """A thread that reports every change of the selected objects."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        selector: Mapping[str, str],
        report: Callable[[Update | WatchStatus], None],
        timing: Timing,
    ) -> None:
        super().__init__(f"watch {kind.resource}", timing)
        self._cluster = cluster
        self._kind = kind
        self._selector = selector
        self._report = report
        self._version = ""
        self._failures = 0
        """Consecutive failures. Only the second is reported: load balancers cut connections of healthy clusters."""

    def run(self) -> None:
        """Watch until stopped, or until the server refuses it for good."""
        while not self.stopping.is_set():
            try:
                if not self._version:
                    objects, version = self._cluster.list(self._kind, self._selector)
                    self._succeeded()
                    self._report(Update(self._kind, "listed", tuple(objects)))
                    self._version = version
                self._watch()
            except SubmitError as error:
                code = error.code if isinstance(error, ApiError) else None
                if self.stopping.is_set():
                    return
                if code == 410:
                    self._version = ""
                elif not error.temporary and code != 401:
                    self._report(WatchStatus(self._kind, error, permanent=True))
                    return
                elif not (isinstance(error, UnreachableError) and error.idle):
                    self._failures += 1
                    if self._failures > 1:
                        self._report(WatchStatus(self._kind, error))
                self.backoff.wait(error)

    def _watch(self) -> None:
        began = time.monotonic()
        with self._cluster.watch(self._kind, self._selector, self._version) as self.stream:
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
        try:
            event = json.loads(line)
        except ValueError as error:
            raise UnreachableError("a watch gave no JSON: a proxy before the server changes its answers") from error
        kind, thing = text(event, "type"), part(event, "object")
        if kind == "ERROR":
            request = f"watch {self._kind.full_name}"
            raise ApiError(request, number(thing, "code"), text(thing, "reason"), text(thing, "message"))
        self.backoff.reset()
        self._version = text(thing, "metadata", "resourceVersion") or self._version
        if kind != "BOOKMARK":
            self._report(Update(self._kind, "deleted" if kind == "DELETED" else "changed", (thing,)))

    def _succeeded(self) -> None:
        if self._failures > 1:
            self._report(WatchStatus(self._kind, None))
        self._failures = 0
