"""Shows progress and logs."""

from __future__ import annotations

import sys
from typing import TextIO


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
