"""Retries with growing pauses, and the base of the threads that read streams of the API."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from submit.errors import ApiError, SubmitError
from submit.options import Timing

if TYPE_CHECKING:
    from submit.cluster import Response


class Backoff:
    """Pauses between retries, each twice as long as the one before. Setting `wake` ends a pause early."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._next = timing.first_pause
        self.wake = threading.Event()

    def reset(self) -> None:
        """Start again with the shortest pause: a request succeeded."""
        self._next = self._timing.first_pause

    def wait(self, error: SubmitError | None = None) -> None:
        """Sleep before the next try, at least as long as the Retry-After of the error."""
        asked = (error.retry_after if isinstance(error, ApiError) else None) or 0
        self.wake.wait(min(max(self._next, asked), self._timing.longest_pause))
        self._next = min(self._next * 2, self._timing.longest_pause)


class StreamReader(threading.Thread):
    """A daemon thread that reads streams of the API until `stop`."""

    def __init__(self, name: str, timing: Timing) -> None:
        super().__init__(name=name, daemon=True)
        self.backoff = Backoff(timing)
        self.stopping = threading.Event()
        self.stream: Response | None = None

    def stop(self) -> None:
        """End the thread soon."""
        self.stopping.set()
        self.backoff.wake.set()
        if self.stream is not None:
            self.stream.close()
