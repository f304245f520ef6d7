"""A container's log, line by line, though the stream breaks: no line twice, none left out.

The kubelet puts a time before each line and gives lines from a time on. But the API server passes that time on in whole seconds,
several lines may have the same one, and those of stdout and stderr may be out of order by a little (kubernetes,
staging/src/k8s.io/cri-client/pkg/logs: lines are left out one by one by their time). So a log that is opened again starts a
little early, and what was shown already is counted off by time and text.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from submit.errors import ApiError, SubmitError, UnreachableError
from submit.news import Line, LogEnded, LogLate
from submit.pace import Pace, Pause, passes

if TYPE_CHECKING:
    from submit.cluster import Cluster, Stream

_SECOND = 1_000_000_000
_EARLY = 1
"""Seconds that a log starts before the last line's own second: more than stdout and stderr are ever out of order."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


def stamped(line: bytes) -> tuple[int | None, str]:
    """(nanoseconds since 1970, text) of a line with a time before it; None where there is no time."""
    found = _STAMP.match(line)
    if found is None:
        return None, line.decode(errors="replace")
    moment = datetime.fromisoformat(f"{found[1].decode()}{found[3].decode().replace('Z', '+00:00')}")
    return int(moment.timestamp()) * _SECOND + int((found[2] or b"").ljust(9, b"0")), line[found.end() :].decode(errors="replace")


class Shown:
    """Which lines of a log were shown, as far as it matters to one that is opened again."""

    def __init__(self) -> None:
        self._start: int | None = None
        """Where a log that is opened again starts, a whole second in nanoseconds; None: at its beginning."""
        self._recent: deque[tuple[int, str]] = deque()
        """Shown lines from `_start` on."""
        self._expected: Counter[tuple[int, str]] = Counter()
        """Shown lines that are still to come again."""
        self._floor: int | None = None
        """`_start` when the log was opened: the server was to leave out what is older."""
        self._odd = ""
        """The last line without a time: the kubelet's own words, which it repeats."""

    def reopened(self) -> str:
        """The log is opened again; gives the time to ask for, as RFC 3339, or nothing."""
        self._expected, self._floor = Counter(self._recent), self._start
        return "" if self._start is None else datetime.fromtimestamp(self._start // _SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new(self, moment: int | None, text: str) -> bool:
        """Whether a line was not shown yet; it counts as shown from now on."""
        if moment is None:
            new, self._odd = text != self._odd, text
            return new
        if self._expected[moment, text]:
            self._expected[moment, text] -= 1
            return False
        if self._floor is not None and moment < self._floor:
            # A server that knows no sinceTime gives all of it.
            return False
        self._recent.append((moment, text))
        start = (moment // _SECOND - _EARLY) * _SECOND
        if self._start is None or start > self._start:
            self._start = start
            self._recent = deque(line for line in self._recent if line[0] >= start)
        return True


@dataclass(frozen=True, slots=True)
class State:
    """What a pod's status says of a container: how often it was started anew, and whether it has ended for good."""

    restarts: int = 0
    ended: bool = False
    gone: bool = False
    """The pod was deleted."""


class LogReader(threading.Thread):
    """A thread that tells every line of one container, over all its restarts, and then that it has ended."""

    def __init__(
        self,
        cluster: Cluster,
        pod: str,
        uid: str,
        container: str,
        tell: Callable[[Line | LogLate | LogEnded], None],
        look: Callable[[], State],
        pace: Pace,
    ) -> None:
        """`look` asks the cluster for the container's state as it is now."""
        super().__init__(name=f"log {pod}/{container}", daemon=True)
        self._cluster = cluster
        self._pod = pod
        self._uid = uid
        self._container = container
        self._tell = tell
        self._look = look
        self._stopping = threading.Event()
        self._news = threading.Event()
        """The state has changed since it was last looked at."""
        self._pause = Pause(pace, self._news)
        self._state = State()
        self._shown = Shown()
        self._restarts = 0
        """The instance of the container that is read: how many were there before it."""
        self._whole = False
        """The log was read to an end that the server set."""
        self._told = False
        """It was told that the log cannot be read at the moment."""
        self._stream: Stream | None = None

    def stop(self) -> None:
        """End the thread soon."""
        self._stopping.set()
        self._news.set()
        if self._stream is not None:
            self._stream.close()

    def learn(self, state: State) -> None:
        """The pod's status says this of the container. What was known to be further on stays: news may come late."""
        old = self._state
        new = State(max(old.restarts, state.restarts), old.ended or state.ended, old.gone or state.gone)
        if new != old:
            self._state = new
            self._news.set()

    def run(self) -> None:
        """Until the container has ended and all of it was read, or it cannot be."""
        why: str | None = None
        again = False
        while why is None and not self._stopping.is_set():
            self._news.clear()
            try:
                # A container that started anew while its log was broken has left a rest, which only its restarts tell of.
                if again:
                    self.learn(self._look())
                again = True
                why = self._step(self._state)
            except SubmitError as error:
                why = self._over(error, self._state)
                if why is None:
                    self._late(error)
                    self._pause.wait(error)
        if not self._stopping.is_set():
            self._tell(LogEnded(self._uid, self._container, why or ""))

    def _step(self, state: State) -> str | None:
        """Read what there is to read in this state; nothing but an empty text where that was the last of it."""
        if state.restarts > self._restarts:
            self._rest(state)
            return None
        self._read(previous=False, follow=not state.ended)
        if state.ended:
            return ""
        # The log has ended, so the container has, or it starts anew, and there will be news.
        self._pause.wait()
        return None

    def _rest(self, state: State) -> None:
        """The rest of the instance before this one. Where there were two between, nobody keeps the first."""
        try:
            self._read(previous=True, follow=False)
        except ApiError as error:
            if error.code not in (400, 404):
                raise
        self._restarts = state.restarts

    def _read(self, *, previous: bool, follow: bool) -> None:
        """Read the log to its end; UnreachableError where it breaks off."""
        since = self._shown.reopened()
        with self._cluster.log(self._pod, self._container, since=since, previous=previous, follow=follow) as stream:
            self._stream, self._whole = stream, False
            if self._stopping.is_set():
                return
            torn = self._lines(stream)
        # A log that is not followed ends where the container did: what has no line end is a line as well.
        if torn and not follow:
            self._line(torn)
        self._whole = True

    def _lines(self, stream: Iterable[bytes]) -> bytes:
        """Tell the lines of a stream; gives what follows the last line end."""
        held = b""
        for piece in stream:
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                self._line(line)
        return held

    def _line(self, line: bytes) -> None:
        moment, text = stamped(line)
        if self._shown.new(moment, text):
            self._pause.reset()
            self._tell(Line(self._pod, self._container, text))

    def _late(self, error: SubmitError) -> None:
        """Tell, once, of a refusal; a connection that broke is made again and worth no word."""
        if isinstance(error, ApiError) and error.passing and not self._told:
            self._told = True
            self._tell(LogLate(self._container, str(error).splitlines()[0]))

    def _over(self, error: SubmitError, state: State) -> str | None:
        """Why the log cannot be read any more, an empty text where it is whole; None where a later try may do better."""
        if state.gone:
            return "" if self._whole else "its pod is gone, and what was not read of it is gone too"
        if isinstance(error, UnreachableError) or passes(error):
            return None
        if isinstance(error, ApiError) and error.code in (400, 404) and not state.ended:
            # The container is about to start, or the status is about to say that the pod is gone.
            return None
        return str(error).splitlines()[0]
