"""How a Job is run: the options of the user, and the intervals of the follower."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from gpu_ci.submit.errors import SubmitError

Existing = Literal["refuse", "follow", "replace"]
"""What to do about a Job of the same name: raise an error; follow it if it has the same contents; delete it and send this one."""
Propagation = Literal["Background", "Foreground"]
"""When the pods of a deleted Job are deleted: after the Job, or before it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    `poll`: between two readings of a Job. `first_pause`: before the first retry; it doubles with each retry up to
    `longest_pause`. `patience`: how long the cluster may be unreachable. `remind`: repeat the last message after so long without
    a new one. `drain`: how long to wait for the rest of the logs of a Job that has ended.
    """

    poll: float = 2
    first_pause: float = 0.5
    longest_pause: float = 30
    patience: float = 600
    remind: float = 300
    drain: float = 15


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run; docs/submit.md describes them.

    `cancel_on_interrupt`: Ctrl-C deletes the Job. `propagation` holds for every deletion. `clean_up`: delete the Job when it has
    ended, however it ended. `stuck_after`: seconds until a container that cannot be created ends the run. `start_within`: seconds
    until the first container must run, queue and node start included; None: no limit.
    """

    existing: Existing = "refuse"
    cancel_on_interrupt: bool = False
    propagation: Propagation = "Background"
    clean_up: bool = False
    stuck_after: float = 180
    start_within: float | None = None
    timing: Timing = Timing()


DEFAULT = RunOptions()


@dataclass(slots=True)
class Backoff:
    """Pauses between retries, each twice as long as the one before."""

    timing: Timing
    _next: float = 0

    def reset(self) -> None:
        """Start again with the shortest pause: a request succeeded."""
        self._next = 0

    def pause(self, error: SubmitError | None = None) -> float:
        """The seconds before the next try: the next pause, or the Retry-After of the error if that is longer, up to a limit."""
        return min(max(self._next, self.timing.first_pause, error.retry_after if error else 0), self.timing.longest_pause)

    def grow(self) -> None:
        """Make the next pause longer."""
        self._next = min(max(self._next, self.timing.first_pause) * 2, self.timing.longest_pause)

    def wait(self, error: SubmitError | None = None) -> None:
        """Sleep before the next try."""
        pause = self.pause(error)
        self.grow()
        time.sleep(pause)
