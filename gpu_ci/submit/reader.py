"""Retries with growing pauses, and the base class of readers, which read streams of the API in a thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.options import Timing

if TYPE_CHECKING:
    from gpu_ci.submit.cluster import Cluster, Response


@dataclass(slots=True)
class Backoff:
    """Pauses between retries, each twice as long as the one before. Setting `wake` ends a pause early."""

    timing: Timing
    wake: threading.Event = field(default_factory=threading.Event)
    _next: float = 0

    def reset(self) -> None:
        """Start again with the shortest pause: a request succeeded."""
        self._next = 0

    def pause(self, error: SubmitError | None = None) -> float:
        """The seconds before the next try: the next pause, or the Retry-After of the error if that is longer, up to a limit."""
        return min(max(self._next, self.timing.first_pause, error.retry_after if error else 0), self.timing.longest_pause)

    def wait(self, error: SubmitError | None = None) -> None:
        """Sleep before the next try."""
        pause = self.pause(error)
        self._next = min(max(self._next, self.timing.first_pause) * 2, self.timing.longest_pause)
        self.wake.wait(pause)


@dataclass(eq=False)
class StreamReader(ABC):
    """Reads streams of the API in a daemon thread until `stop`, and reports messages."""

    cluster: Cluster
    report: Callable[[Any], None]
    backoff: Backoff
    stopping: threading.Event = field(default_factory=threading.Event, init=False)
    stream: Response | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.run, daemon=True).start()

    @abstractmethod
    def run(self) -> None:
        """Read until stopped."""

    def stop(self) -> None:
        """End the thread soon."""
        self.stopping.set()
        self.backoff.wake.set()
        if self.stream is not None:
            self.stream.close()
