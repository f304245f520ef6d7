"""Runs the steps: stops at the first failure, and always runs the last ones once something may have been created.

Each command of a step runs until the step's time is over.
"""

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from types import FrameType
from typing import NamedTuple

from fleet.facts.credentials import mask

OK, FAILED, NOT_RUN = "ok", "failed", "not run"
GRACE = 600
"""Seconds that an interrupted command gets to end by itself: Pulumi waits for the calls that it has begun."""


class StepError(Exception):
    """The step failed. The message is one line, without credentials."""


class Step(NamedTuple):
    """One step: what a success proves, the most seconds that it may take, and what it does. `act` raises StepError.

    `graces` is how many of its commands may be interrupted, one after another.
    """

    name: str
    proves: str
    seconds: float
    act: Callable[[], None]
    graces: int = 1

    @property
    def longest(self) -> float:
        """Seconds until the step is over, if each command that may hang does so."""
        return self.seconds + GRACE * self.graces


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
        return self._execute(words, PIPE)

    def _execute(self, words: tuple[str, ...], out: int | None) -> str:
        try:
            # Of its own session: Ctrl-C comes here alone, and this program decides what ends.
            process = Popen(  # noqa: S603 - no shell reads the words
                words, cwd=self.folder, env=self._environment, stdin=DEVNULL, stdout=out, text=True, start_new_session=True
            )
        except OSError as error:
            raise StepError(f"{words[0]} cannot be started: {type(error).__name__}; install it") from None
        with process:
            try:
                # Python refuses to wait forever by a number.
                printed, _ = process.communicate(timeout=max(0.0, min(self.until - self.now(), 86400.0)))
            except TimeoutExpired:
                self._end(process)
                raise StepError(f"{_short(words)} took too long and was interrupted") from None
            except BaseException:
                self._end(process)
                raise
        if process.returncode:
            raise StepError(f"{_short(words)} ended with status {process.returncode}")
        return printed or ""

    def _end(self, process: Popen[str]) -> None:
        """Interrupt a command, and kill it with all that it started if it does not end."""
        process.send_signal(signal.SIGINT)
        try:
            with suppress(TimeoutExpired):
                process.communicate(timeout=self._grace)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def _short(words: tuple[str, ...]) -> str:
    """The command without its options."""
    named = [Path(words[0]).name, *words[1:]]
    return " ".join(named[: next((at for at, word in enumerate(named) if word.startswith("--")), len(named))])


class StoppedError(Exception):
    """Somebody interrupted the run."""


class Script(NamedTuple):
    """All steps. `before` create nothing, `paid` may create, `end` removes what they created and scans for leftovers."""

    before: Sequence[Step]
    paid: Sequence[Step]
    end: Sequence[Step]

    @property
    def seconds(self) -> float:
        """The longest time in which something may be paid for. A paid step that is interrupted is the last one."""
        return sum(step.seconds for step in self.paid) + self.ending

    @property
    def ending(self) -> float:
        """The longest time from a stop to the end."""
        return GRACE + sum(step.longest for step in self.end)

    def hours(self, most: float) -> float:
        """The longest time in which something may be paid for, if the run has at most so many seconds."""
        return min(self.seconds, most) / 3600

    def bound(self, worst: float, most: float = float("inf")) -> float:
        """The most USD that a run of at most so many seconds can cost if the worst hour of the plan costs `worst` USD."""
        return worst * self.hours(most)


class Result(NamedTuple):
    """How one step ended, after how many seconds, and why it failed."""

    step: Step
    status: str
    seconds: float = 0.0
    why: str = ""


@dataclass
class Run:
    """One run. `results` has each step that ran, in order."""

    shell: Shell
    script: Script
    worst: float
    """USD in the worst hour of the plan."""
    budget: float
    """USD."""
    keep: bool = False
    most: float = float("inf")
    """Seconds from the first step that may create something to the end."""
    results: list[Result] = field(default_factory=list)
    _stoppable: bool = True
    _limit: str = ""

    @property
    def ok(self) -> bool:
        """Whether every step ran and succeeded."""
        return len(self.results) == len(self._steps) and all(result.status == OK for result in self.results)

    @property
    def all_results(self) -> list[Result]:
        """One for each step, in order, also for those that did not run."""
        ran = {result.step.name: result for result in self.results}
        return [ran.get(step.name, Result(step, NOT_RUN)) for step in self._steps]

    @property
    def _steps(self) -> list[Step]:
        return [*self.script.before, *self.script.paid, *(() if self.keep else self.script.end)]

    def run(self) -> bool:
        """Run the steps; whether all succeeded."""
        with self._signals(), suppress(StoppedError):
            if self._all(self.script.before, float("inf")):
                # The budget may end before the steps' times, because this machine may be suspended between them.
                allowed = self.budget / self.worst * 3600 if self.worst else float("inf")
                self._limit = f"the budget of {self.budget:.2f} USD" if allowed <= self.most else "--minutes"
                deadline = self.shell.now() + min(allowed, self.most) - self.script.ending
                try:
                    self._all(self.script.paid, deadline)
                finally:
                    self._stoppable = False
                    for step in () if self.keep else self.script.end:
                        self._one(step, float("inf"))
        return self.ok

    def _all(self, steps: Sequence[Step], deadline: float) -> bool:
        return all(self._one(step, deadline) for step in steps)

    def _one(self, step: Step, deadline: float) -> bool:
        began, why = self.shell.now(), ""
        self.shell.until = min(began + step.seconds, deadline)
        self.shell.say(f"\n== {step.name}: {step.proves}")
        try:
            if began >= deadline:
                raise StepError(f"{self._limit} allows no more time")
            with _alarm(self.shell.until - began + GRACE * step.graces):
                step.act()
        except StepError as error:
            why = mask(str(error))
        except StoppedError as error:
            why = f"interrupted by {error}"
        except Exception as error:  # noqa: BLE001 - whatever happens, what was created is destroyed
            why = mask(f"{type(error).__name__}: {error}")
        seconds = self.shell.now() - began
        self.results.append(Result(step, FAILED if why else OK, seconds, why))
        self.shell.say(f"== {step.name}: {f'failed: {why}' if why else 'ok'} ({seconds:.0f} s)")
        return not why

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first signal stops the steps. While the last steps run, and after the first, a signal changes nothing."""

        def stop(number: int, _: FrameType | None) -> None:
            if not self._stoppable:
                self.shell.say("still destroying, which is not interrupted: what remains would be paid for")
                return
            self._stoppable = False
            raise StoppedError(signal.Signals(number).name)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for signal_number, handler in before.items():
                signal.signal(signal_number, handler)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise StepError in the block after so many seconds: a client of a cloud may wait without a command that ends."""

    def late(*_: object) -> None:
        raise StepError("took too long and was interrupted")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
