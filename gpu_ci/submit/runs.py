"""A run of a Job: the options of the user, the intervals of the follower, where progress and logs go, and how it ended."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TextIO

from fleet.facts.record import Record
from gpu_ci.submit.errors import SubmitError

Existing = Literal["refuse", "follow", "replace"]
"""What to do about a Job of the same name: raise an error; follow it if it has the same contents; delete it and send this one."""
Propagation = Literal["Background", "Foreground"]
"""When the pods of a deleted Job are deleted: after the Job, or before it."""


class Timing(Record):
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


class RunOptions(Record):
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
        """The seconds before the next try: the next pause, or the Retry-After of the error if that is longer, up to a limit.

        Each call makes the next pause longer.
        """
        pause = max(self._next, self.timing.first_pause)
        self._next = min(pause * 2, self.timing.longest_pause)
        return min(max(pause, error.retry_after if error else 0), self.timing.longest_pause)


class Output:
    """Writes progress to stderr and the logs of Jobs to stdout, so that `> train.log` contains the logs only.

    Override both methods to show them elsewhere. Only the thread that called `run`, `run_all` or `follow` calls them.
    """

    def __init__(self, logs: TextIO | None = None) -> None:
        """`logs`: a stream for the logs in place of stdout."""
        self._logs = logs

    def progress(self, who: str, message: str) -> None:
        """Show one line of progress of a Job or pod."""
        print(f"{who}: {message}", file=sys.stderr, flush=True)  # noqa: T201

    def log(self, prefix: str, line: str) -> None:
        """Show one line of a log. `prefix` names the container if there are several."""
        print(f"{prefix}{line}", file=self._logs or sys.stdout, flush=True)


class Outcome(StrEnum):
    """How following a Job ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    DEADLINE = "deadline exceeded"
    EVICTED = "evicted for good"
    STUCK = "stuck"
    """A container cannot be created: its image cannot be pulled, or a Secret is missing. The Job still exists."""
    LATE = "not started in time"
    DELETED = "deleted"
    REFUSED = "refused"
    """The cluster created nothing."""
    LOST = "lost"
    """The cluster is unreachable: the state of the Job is not known."""
    INTERRUPTED = "interrupted"


STATUS = dict.fromkeys(Outcome, 1) | {Outcome.COMPLETE: 0, Outcome.REFUSED: 2, Outcome.LOST: 3, Outcome.INTERRUPTED: 130}
"""Exit status by outcome: 0 complete, 1 the Job failed, 2 wrong input, 3 not known, 130 interrupted (128 + SIGINT)."""


class Result(Record):
    """How one Job ended.

    `reason` is one line. `exit_code` is that of the container that failed last, if one did. `attempts` counts the containers
    that ran, retries included. `seconds` is the time since the Job was sent, or since following it began.
    """

    job: str
    namespace: str
    outcome: Outcome
    reason: str
    exit_code: int | None = None
    attempts: int = 0
    seconds: float = 0

    @property
    def ok(self) -> bool:
        """Whether the Job is complete."""
        return self.outcome is Outcome.COMPLETE

    @property
    def status(self) -> int:
        """The exit status of a command that ran the Job."""
        return STATUS[self.outcome]

    def __str__(self) -> str:
        return f"{self.job}: {self.outcome}{f': {self.reason}' if self.reason else ''}"


def span(seconds: float) -> str:
    """A duration as people write it: 42s, 3m12s, 2h05m."""
    if (whole := int(seconds)) < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"
