"""Shows what a follower tells: progress on stderr, the Jobs' own logs on stdout, so that `> train.log` keeps the logs alone."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.text import Text


class Teller(Protocol):
    """What a follower tells its reader. Called from one thread for each Job."""

    def say(self, who: str, words: str) -> None:
        """One line of progress: of a Job or one of its pods."""

    def log(self, prefix: str, line: str) -> None:
        """One line of a log; `prefix` says whose it is where there are several."""


class Quiet:
    """Shows nothing."""

    def say(self, who: str, words: str) -> None:
        """Not shown."""

    def log(self, prefix: str, line: str) -> None:
        """Not shown."""


class Plain:
    """Lines as they come."""

    def __init__(self, progress: TextIO | None = None, logs: TextIO | None = None) -> None:
        self._progress = progress or sys.stderr
        self._logs = logs or sys.stdout
        self._lock = threading.Lock()

    def say(self, who: str, words: str) -> None:
        """A line on stderr."""
        self._write(self._progress, f"{who}: {words}\n")

    def log(self, prefix: str, line: str) -> None:
        """A line on stdout."""
        self._write(self._logs, f"{prefix}{line}\n")

    def _write(self, stream: TextIO, line: str) -> None:
        with self._lock:
            stream.write(line)
            stream.flush()


class Live:
    """On a terminal: the same lines, and below them what is going on now, with a sign that turns. A context manager."""

    def __init__(self, console: Console | None = None, logs: TextIO | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._logs = logs
        """Where logs go if not to the same terminal."""
        self._status = self._console.status("…")
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._status.stop()

    def say(self, who: str, words: str) -> None:
        """A line, and what goes on from now."""
        with self._lock:
            self._console.print(Text.assemble((f"{who}: ", "dim"), words), soft_wrap=True)
            # Cut to one line, the sign before it: what wraps would be drawn again with each turn.
            self._status.update(Text(f"{who}: {words}"[: max(self._console.width - 4, 1)]))

    def log(self, prefix: str, line: str) -> None:
        """A line of a log, its colours kept."""
        with self._lock:
            if self._logs is None:
                self._console.print(Text.assemble((prefix, "cyan"), Text.from_ansi(line)), soft_wrap=True)
            else:
                self._logs.write(f"{prefix}{line}\n")
                self._logs.flush()


def teller() -> Live | Plain:
    """What suits where stderr goes: a terminal or not."""
    if not sys.stderr.isatty():
        return Plain()
    return Live(logs=None if sys.stdout.isatty() else sys.stdout)
