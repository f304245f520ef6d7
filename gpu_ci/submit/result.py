"""How a Job ended, and the exit status for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Result:
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
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02}s" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02}m"
