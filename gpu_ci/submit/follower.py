"""Follows one Job to its end: reads it every few seconds, reads its logs, every line exactly once, and shows what is new."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import ApiError, SubmitError
from gpu_ci.submit.objects import Object, name, text
from gpu_ci.submit.pods import ContainerState, LogSource
from gpu_ci.submit.runs import Backoff, Outcome, Output, Result, RunOptions, span
from gpu_ci.submit.status import JobStatus, Note, Reader

_EARLY = timedelta(seconds=1)


@dataclass(eq=False)
class Log:
    """The log of one container, over all restarts. `over`: nothing more will come.

    The kubelet puts a timestamp before each line and can start at a time. But the API server passes that time on in whole
    seconds, several lines can have the same timestamp, and lines of stdout and stderr can be slightly out of order (kubernetes,
    staging/src/k8s.io/cri-client/pkg/logs). So each piece starts a second early, and lines that were shown already are dropped.
    """

    cluster: Cluster
    source: LogSource
    over: bool = False
    _restarts: int = 0
    """Restarts before the instance of the container whose log is read."""
    _start: datetime | None = None
    """Where the next piece starts, a whole second; None: at the first line."""
    _floor: datetime | None = None
    """Where the last piece started. The container may have restarted before it, so the rest of the old instance starts there."""
    _recent: list[tuple[datetime | None, bytes]] = field(default_factory=list)
    """Shown lines from there on."""

    def read(self, state: ContainerState) -> Iterator[str]:
        """The lines that are new, given the state from the pod's status. Raises SubmitError."""
        if state.restarts > self._restarts:
            # The rest of the instance before this one. If there were two restarts, the kubelet has deleted the older log.
            try:
                yield from self._lines(previous=True, whole=True)
            except ApiError as error:
                if error.code not in (400, 404):
                    raise
            self._restarts = state.restarts
        yield from self._lines(previous=False, whole=state.ended)
        self.over = state.ended

    def broken(self, error: SubmitError, state: ContainerState) -> str:
        """Why the log cannot be read any more; empty if a retry can help."""
        if state.gone:
            return "its pod is gone, and the rest of its log is lost"
        # 400, 404: the container is about to start.
        return "" if error.temporary or (error.code in (400, 404) and not state.ended) else error.headline

    def _lines(self, *, previous: bool, whole: bool) -> Iterator[str]:
        """The new lines up to now. A line without an end is complete only if the log is whole."""
        start = (self._floor or self._start) if previous else self._start
        self._floor = start
        since = "" if start is None else f"{start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        repeated = Counter(line for _, line in self._recent)
        with self.cluster.log(self.source.pod, self.source.container, since=since, previous=previous) as stream:
            for line in stream:
                content = line.removesuffix(b"\n")
                if line == content and not whole:
                    return
                if repeated[content]:
                    repeated[content] -= 1
                else:
                    yield self._taken(content)

    def _taken(self, line: bytes) -> str:
        """The text of a new line, which is remembered as long as it can be repeated. The kubelet's own words have no time."""
        stamp = re.match(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d) ?", line)
        second = datetime.fromisoformat((stamp[1] + stamp[2].replace(b"Z", b"+00:00")).decode()) if stamp else None
        if second is not None and (self._start is None or second - _EARLY > self._start):
            self._start = second - _EARLY
            floor = self._floor or self._start
            self._recent = [(time, old) for time, old in self._recent if time is None or time >= floor]
        self._recent.append((second, line))
        return line[stamp.end() if stamp else 0 :].decode(errors="replace")


class Follower:
    """Follows one Job; the caller's loop calls `step`."""

    def __init__(self, cluster: Cluster, job: Object, output: Output, options: RunOptions) -> None:
        """`job` is as the server stored it, with uid and selector."""
        self._cluster = cluster
        self._output = output
        self._timing = options.timing
        self._reader = Reader(cluster)
        self._status = JobStatus(job, options, self._reader.refused)
        self._name = name(job)
        self._logs: dict[LogSource, Log] = {}
        self._delayed: set[LogSource] = set()
        self._began = self._last_shown = time.monotonic()
        self._next = 0.0
        self._backoff = Backoff(options.timing)
        self._unreachable: tuple[float, int] | None = None
        """Since when the cluster does not respond, and how often it was tried."""
        self._drain_until: float | None = None
        """The Job has ended; until then the rest of its logs is awaited."""

    def step(self) -> Result | None:
        """Read the Job if it is time. Returns the result when following has ended."""
        if (now := time.monotonic()) < self._next:
            return None
        try:
            self._show(self._status.learn(self._reader.look(self._status.job), now))
            for of in self._status.waiting():
                self._show(self._status.learn_events(of, self._reader.events(of)))
        except SubmitError as error:
            return self._missed(error, now)
        self._responds()
        self._next = now + self._timing.poll
        waits = self._read_logs()
        outcome = self._status.judge(now, self._began)
        if outcome is None and now - self._last_shown >= self._timing.remind and self._status.last:
            self._say(f"still, after {span(now - self._began)}: {self._status.last}")
        if outcome is not None and self._status.ended and waits:
            self._drain_until = self._drain_until or now + self._timing.drain
            if now < self._drain_until:
                return None
            self._say("the rest of its log does not arrive; read it with kubectl logs")
        return None if outcome is None else self._result(*outcome)

    def interrupted(self) -> Result:
        """The result of a Job that has ended already; else that following was interrupted."""
        outcome = self._status.judge(time.monotonic(), self._began) if self._status.ended else None
        return self._result(*(outcome or (Outcome.INTERRUPTED, "the Job continues")))

    def _result(self, outcome: Outcome, reason: str) -> Result:
        seconds = time.monotonic() - self._began
        code = None if outcome is Outcome.COMPLETE else self._status.exit_code
        namespace = text(self._status.job, "metadata", "namespace") or self._cluster.namespace
        return Result(self._name, namespace, outcome, reason, code, self._status.attempts, seconds)

    def _missed(self, error: SubmitError, now: float) -> Result | None:
        """The cluster did not respond, or refused the Job itself. A token may be renewed, so 401 is tried again, too."""
        since, tries = self._unreachable or (now, 0)
        self._unreachable = since, tries + 1
        if now - since >= self._timing.patience or not (error.temporary or error.code == 401):
            return self._result(Outcome.LOST, f"{error.headline}; the Job may continue")
        # Load balancers cut connections of healthy clusters, so one failure is not shown.
        if tries == 1:
            self._say(f"{error.headline}; trying again")
        self._next = now + self._backoff.pause(error)
        return None

    def _responds(self) -> None:
        if self._unreachable is not None and self._unreachable[1] > 1:
            self._say("the cluster responds again")
        self._unreachable = None
        self._backoff.reset()

    def _read_logs(self) -> bool:
        """Show what is new in the log of each container that has run; whether one of them can have more."""
        for source, state in self._status.logs():
            log = self._logs.setdefault(source, Log(self._cluster, source))
            if log.over:
                continue
            prefix = f"[{source.pod}/{source.container}] " if self._status.several else ""
            try:
                for line in log.read(state):
                    self._last_shown = time.monotonic()
                    self._output.log(prefix, line)
            except SubmitError as error:
                if why := log.broken(error, state):
                    log.over = True
                    self._say(f"the log of {source.container} breaks off: {why}")
                elif error.code and error.temporary and source not in self._delayed:
                    self._delayed.add(source)
                    self._say(f"the log of {source.container} is not available yet: {error.headline}; trying again")
        return any(not log.over for log in self._logs.values())

    def _say(self, message: str) -> None:
        self._show([Note(self._name, message)])

    def _show(self, notes: Iterable[Note]) -> None:
        for note in notes:
            self._last_shown = time.monotonic()
            self._output.progress(*note)
