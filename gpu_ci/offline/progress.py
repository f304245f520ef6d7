"""Progress lines on stderr for commands that take long, and the line that says where Ctrl-C stopped one."""

import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import typer

Stages = Callable[[str], object]
"""Called with the name of the stage that starts."""
INTERRUPTED: Final = 130
"""The exit status of a shell for a command that SIGINT ended: 128 + 2."""
_PROOFS = ("fleet.prove", "fleet.jobs", "policies.rules")


def quiet(_: str) -> None:
    """Show no stage."""


class Progress:
    """Prints the current stage, but only after `after` seconds. Ctrl-C ends the command with one line and status 130."""

    def __init__(self, after: float = 2.0) -> None:
        self._stage = "starting"
        self._late = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(after, self._on_time)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        if kind is KeyboardInterrupt:
            sys.stderr.write(f"error: interrupted while {self._stage}{_proof(trace)}\n")
            raise typer.Exit(INTERRUPTED) from error

    def __call__(self, stage: str) -> None:
        """Start the next stage."""
        with self._lock:
            self._stage = stage
            if self._late:
                self._say()

    def _on_time(self) -> None:
        with self._lock:
            self._late = True
            self._say()

    def _say(self) -> None:
        sys.stderr.write(f"… {self._stage}\n")
        sys.stderr.flush()


def _proof(trace: TracebackType | None) -> str:
    """The proof that ran when a command was interrupted, as ", in fleet.prove.room"; empty if none did."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(trace)]
    proof = next((module for module in reversed(modules) if module.startswith(_PROOFS)), "")
    return f", in {proof}" if proof else ""
