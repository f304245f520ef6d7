"""Runs the commands of a step, each until the step's time is over."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GRACE = 600
"""Seconds that an interrupted command gets to end by itself: Pulumi waits for the calls that it has begun."""


_LONGEST = 86400.0
"""Seconds. Python refuses to wait forever by a number."""


class StepError(Exception):
    """The step failed. The message is one line, without credentials."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what a success proves, the most seconds that it may take, and what it does. `act` raises StepError."""

    name: str
    proves: str
    seconds: int
    act: Callable[[], None]


class Shell:
    """Commands in one folder. `until` is the time, in seconds as of `now`, at which the present step must be over."""

    def __init__(self, folder: Path, environment: Mapping[str, str] = os.environ, grace: float = GRACE) -> None:
        self.folder = folder
        self.until = float("inf")
        self._environment = {**environment, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        self._grace = grace

    def now(self) -> float:
        """Seconds since 1970. Clouds charge for the time in which this machine is suspended, too."""
        return time.time()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def say(self, line: str) -> None:
        """Print a line."""
        with suppress(OSError):  # the terminal may be gone, and what was created must still be destroyed
            print(line, flush=True)  # noqa: T201 - the program's own output

    def run(self, *words: str) -> None:
        """Run a command; its output goes to the terminal. Raises StepError if it fails or takes too long."""
        self.say(f"$ {shlex.join(words)}")
        self._execute(words, None)

    def read(self, *words: str) -> str:
        """The standard output of a command. Raises StepError as `run` does."""
        return self._execute(words, subprocess.PIPE)

    def _execute(self, words: tuple[str, ...], out: int | None) -> str:
        try:
            # Of its own session: Ctrl-C comes here alone, and this program decides what ends.
            process = subprocess.Popen(  # noqa: S603 - the words are ours and the stack's names, and no shell reads them
                words,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            raise StepError(f"{words[0]} cannot be started: {type(error).__name__}; install it") from None
        with process:
            try:
                printed, _ = process.communicate(timeout=max(0.0, min(self.until - self.now(), _LONGEST)))
            except subprocess.TimeoutExpired:
                self._end(process)
                raise StepError(f"{_short(words)} took too long and was interrupted") from None
            except BaseException:
                self._end(process)
                raise
        if process.returncode:
            raise StepError(f"{_short(words)} ended with status {process.returncode}")
        return printed or ""

    def _end(self, process: subprocess.Popen[str]) -> None:
        """Interrupt a command, and kill it with all that it started if it does not end."""
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=self._grace)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _short(words: tuple[str, ...]) -> str:
    """The command without its options."""
    named = [Path(words[0]).name, *words[1:]]
    return " ".join(named[: next((at for at, word in enumerate(named) if word.startswith("--")), len(named))])
