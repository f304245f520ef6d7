"""Reads the log of a container over broken streams: every line exactly once.

The kubelet puts a timestamp before each line and can start at a time. But the API server passes that time on in whole seconds,
several lines can have the same timestamp, and lines of stdout and stderr can be slightly out of order (kubernetes,
staging/src/k8s.io/cri-client/pkg/logs). So a log that is opened again starts a little early, and lines that were shown already
are dropped by timestamp and text.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from gpu_ci.submit.errors import ApiError, SubmitError
from gpu_ci.submit.reader import StreamReader

_SECOND = 1_000_000_000
_EARLY = 1
"""Seconds before the last line's own second at which a log is opened again: more than stdout and stderr are out of order."""
_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


def timestamped(line: bytes) -> tuple[int | None, str]:
    """(nanoseconds since 1970, text) of a line; None if it has no timestamp."""
    found = _TIMESTAMP.match(line)
    if found is None:
        return None, line.decode(errors="replace")
    moment = datetime.fromisoformat(f"{found[1].decode()}{found[3].decode().replace('Z', '+00:00')}")
    return int(moment.timestamp()) * _SECOND + int((found[2] or b"").ljust(9, b"0")), line[found.end() :].decode(errors="replace")


class Shown:
    """Which lines of a log were shown, as far as a log that is opened again can repeat them."""

    def __init__(self) -> None:
        self._start: int | None = None
        """Where a log that is opened again starts, a whole second in nanoseconds; None: at its first line."""
        self._recent: deque[tuple[int, str]] = deque()
        """Shown lines from `_start` on."""
        self._expected: Counter[tuple[int, str]] = Counter()
        """Shown lines that the open stream has not repeated yet."""
        self._floor: int | None = None
        """`_start` when the log was opened. A server that ignores sinceTime sends older lines too."""
        self._without_time = ""
        """The last line without a timestamp: a message of the kubelet, which it repeats."""

    def reopened(self) -> str:
        """The log is opened again: the time to start at, as RFC 3339; empty for the first line."""
        self._expected, self._floor = Counter(self._recent), self._start
        return "" if self._start is None else datetime.fromtimestamp(self._start // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new(self, moment: int | None, text: str) -> bool:
        """Whether a line was not shown yet. From now on it counts as shown."""
        if moment is None:
            new, self._without_time = text != self._without_time, text
            return new
        if self._expected[moment, text]:
            self._expected[moment, text] -= 1
            return False
        if self._floor is not None and moment < self._floor:
            return False
        self._recent.append((moment, text))
        start = (moment // _SECOND - _EARLY) * _SECOND
        if self._start is None or start > self._start:
            self._start = start
            self._recent = deque(line for line in self._recent if line[0] >= start)
        return True


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container in its pod's status. `ended`: it will not run again. `gone`: the pod was deleted."""

    restarts: int = 0
    ended: bool = False
    gone: bool = False


class LogSource(NamedTuple):
    """A container of a pod."""

    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of a log; or the log cannot be read at the moment; or nothing more will come (`text`: why, if not its end)."""

    source: LogSource
    what: Literal["line", "delayed", "ended"]
    text: str = ""


@dataclass(eq=False)
class LogReader(StreamReader):
    """Reports every line of one container, over all restarts, and then that the log has ended.

    `current_state` asks the cluster for the state of the container.
    """

    source: LogSource
    current_state: Callable[[], ContainerState]
    _state: ContainerState = ContainerState()
    _shown: Shown = field(default_factory=Shown)
    _restarts: int = 0
    """Restarts before the instance of the container whose log is read."""
    _complete: bool = False
    """The server ended the last stream in good order."""
    _delay_reported: bool = False

    def learn(self, state: ContainerState) -> None:
        """Take a state from the pod's status. States can arrive late, so an older one changes nothing."""
        old = self._state
        new = ContainerState(max(old.restarts, state.restarts), old.ended or state.ended, old.gone or state.gone)
        if new != old:
            self._state = new
            self.backoff.wake.set()

    def run(self) -> None:
        """Read until the container has ended and its whole log was read, or until the log cannot be read."""
        why: str | None = None
        opened = False
        while why is None and not self.stopping.is_set():
            self.backoff.wake.clear()
            try:
                # Only the restart count reveals that a container restarted while its log was broken.
                if opened:
                    self.learn(self.current_state())
                opened = True
                why = self._step(self._state)
            except SubmitError as error:
                why = self._final(error)
                if why is None:
                    # A broken connection is opened again at once and needs no message.
                    if error.code and error.temporary and not self._delay_reported:
                        self._delay_reported = True
                        self.report(LogEvent(self.source, "delayed", error.headline))
                    self.backoff.wait(error)
        if not self.stopping.is_set():
            self.report(LogEvent(self.source, "ended", why or ""))

    def _step(self, state: ContainerState) -> str | None:
        """Read one stream to its end. Returns None if more can follow, else an empty text."""
        if state.restarts > self._restarts:
            # The rest of the instance before this one. If there were two restarts, the kubelet has deleted the older log.
            try:
                self._read(previous=True, follow=False)
            except ApiError as error:
                if error.code not in (400, 404):
                    raise
            self._restarts = state.restarts
            return None
        self._read(previous=False, follow=not state.ended)
        if state.ended:
            return ""
        # The container has ended or restarts. Its status will show which.
        self.backoff.wait()
        return None

    def _read(self, *, previous: bool, follow: bool) -> None:
        """Report the lines of a log until its end. Raises UnreachableError if the stream breaks off."""
        source, since = self.source, self._shown.reopened()
        with self.cluster.log(source.pod, source.container, since=since, previous=previous, follow=follow) as self.stream:
            self._complete = False
            if self.stopping.is_set():
                return
            for line in self.stream:
                # A log that is not followed ends where the container ended: a last line without an end is complete.
                if line.endswith(b"\n") or not follow:
                    moment, text = timestamped(line.removesuffix(b"\n"))
                    if self._shown.new(moment, text):
                        self.backoff.reset()
                        self.report(LogEvent(source, "line", text))
        self._complete = True

    def _final(self, error: SubmitError) -> str | None:
        """Why the log cannot be read any more; empty if it was read completely; None if a retry can help."""
        if self._state.gone:
            return "" if self._complete else "its pod is gone, and the rest of its log is lost"
        # 400, 404: the container is about to start, or the watch is about to report that the pod is gone.
        starting = error.code in (400, 404) and not self._state.ended
        return None if error.temporary or starting else error.headline
