"""Reads the log of a container piece by piece: every line exactly once.

The kubelet puts a timestamp before each line and can start at a time. But the API server passes that time on in whole seconds,
several lines can have the same timestamp, and lines of stdout and stderr can be slightly out of order (kubernetes,
staging/src/k8s.io/cri-client/pkg/logs). So each piece starts a second early, and lines that were shown already are dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gpu_ci.submit.errors import ApiError, SubmitError
from gpu_ci.submit.pods import ContainerState, LogSource

if TYPE_CHECKING:
    from gpu_ci.submit.cluster import Cluster

_EARLY = timedelta(seconds=1)
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d) ?")


@dataclass(eq=False)
class Log:
    """The log of one container, over all restarts. `over`: nothing more will come."""

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
        starting = error.code in (400, 404) and not state.ended
        return "" if error.temporary or starting else error.headline

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
        stamp = _STAMP.match(line)
        second = datetime.fromisoformat((stamp[1] + stamp[2].replace(b"Z", b"+00:00")).decode()) if stamp else None
        if second is not None and (self._start is None or second - _EARLY > self._start):
            self._start = second - _EARLY
            floor = self._floor or self._start
            self._recent = [(time, old) for time, old in self._recent if time is None or time >= floor]
        self._recent.append((second, line))
        return line[stamp.end() if stamp else 0 :].decode(errors="replace")
