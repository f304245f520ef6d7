"""The bound of a run: commands that hang, a client of a cloud that hangs, and the longest run, which takes the bound exactly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as some

from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from gpu_ci.acceptance import runner, steps
from gpu_ci.acceptance.runner import GRACE, Run, Script, Shell, Step, StepError
from gpu_ci.acceptance.steps import Steps
from tests.acceptance.fakes import ANSWERS, Fake, Looks
from tests.builders import ROOT

CONFIG = load("staging", ROOT)
FLEET = fleet_of(CONFIG)
BEFORE_PAID = "pulumi up"
"""The first command that creates something."""
QUICK, SLOW, HANGS = "quick", "slow", "hangs"


class Tired(Fake):
    """Each command is quick, or takes all the time that it has, or must be killed. A command without time left must be, too."""

    def __init__(self, folder: Path, how: Callable[[str], str]) -> None:
        super().__init__(folder)
        self.answers = dict(ANSWERS)
        self.how = how
        self.paid = 0.0

    def _execute(self, words: tuple[str, ...], out: int | None) -> str:
        line = " ".join(words)
        if self.paid == 0 and line.startswith(BEFORE_PAID):
            self.paid = self.time
        how = self.how(line) if self.paid else QUICK
        if self.time >= self.until or how == HANGS:
            self.time = max(self.time, self.until) + GRACE
            raise StepError("took too long and was interrupted")
        self.each = self.until - self.time - 1 if how == SLOW else 1
        return super()._execute(words, out)


def run_of(folder: Path, how: Callable[[str], str], looks: Looks) -> tuple[float, Script]:
    """The seconds from the first paid step to the end, and the script."""
    shell = Tired(folder, how)
    script = Steps("staging", CONFIG.path, FLEET, shell, folder, looks).script()  # type: ignore[arg-type]
    Run(shell, script, 1.0, 1e9).run()
    return shell.time - shell.paid, script


LONGEST = {
    "pulumi up --stack staging --non-interactive --policy-pack": SLOW,
    "--expect-no-changes": SLOW,
    "smoke": SLOW,
    "pulumi config set": HANGS,
    "pulumi destroy": HANGS,
    "pulumi cancel": HANGS,
    "pulumi stack export": HANGS,
}


def test_the_longest_run_takes_the_bound(tmp_path: Path) -> None:
    took, script = run_of(tmp_path, lambda line: next((how for part, how in LONGEST.items() if part in line), QUICK), Looks())
    assert script.seconds - 10 <= took <= script.seconds, "all but the seconds that quick commands have left"


@given(some.lists(some.sampled_from([QUICK, SLOW, HANGS]), min_size=1, max_size=20), some.integers(0, 60))
def test_no_run_takes_more_than_the_bound(tmp_path_factory: pytest.TempPathFactory, drawn: list[str], left: int) -> None:
    answers = iter(drawn * 20)
    took, script = run_of(tmp_path_factory.mktemp("bound"), lambda _: next(answers), Looks(left))
    assert took <= script.seconds


def test_a_second_destroy_has_time_to_delete(tmp_path: Path) -> None:
    """Whatever the first one and the removal of its lock took."""
    times: list[float] = []

    def how(line: str) -> str:
        if "pulumi destroy" in line:
            times.append(shell.until - shell.time)
        return HANGS if ("pulumi destroy" in line and len(times) == 1) or "cancel" in line else QUICK

    shell = Tired(tmp_path, how)
    script = Steps("staging", CONFIG.path, FLEET, shell, tmp_path, Looks()).script()  # type: ignore[arg-type]
    run = Run(shell, script, 1.0, 1e9)
    assert run.run(), run.results
    assert times == [steps.DESTROY, steps.AGAIN]


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> float:
    """Seconds of a grace, and the same of each command of destroy."""
    monkeypatch.setattr(runner, "GRACE", 0.8)
    for name in ("DESTROY", "CANCEL", "AGAIN"):
        monkeypatch.setattr(steps, name, 0.4)
    return 0.8


def test_real_commands_that_hang_take_the_bound_and_no_grace_more_or_less(tmp_path: Path, scaled: float) -> None:
    deaf = tmp_path / "pulumi"
    deaf.write_text("#!/bin/sh\ntrap '' INT\nsleep 60\n")
    deaf.chmod(0o755)
    shell = Shell(tmp_path, {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, grace=scaled)
    of_stack = Steps("staging", CONFIG.path, FLEET, shell, tmp_path, Looks())  # type: ignore[arg-type]
    (destroy, _) = of_stack.script().end
    script = Script((), [Step("up", "", 0.4, lambda: shell.run("pulumi", "up"))], [destroy])
    began = time.monotonic()
    assert not Run(shell, script, 1.0, 1e9).run()
    assert script.seconds - scaled / 2 <= time.monotonic() - began <= script.seconds + scaled / 2


def test_a_client_that_hangs_ends_with_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GRACE", 0.2)
    shell = Shell(tmp_path)
    script = Script((), [], [Step("leftovers", "", 0.2, lambda: time.sleep(30))])
    run = Run(shell, script, 1.0, 1e9)
    began = time.monotonic()
    assert not run.run()
    assert time.monotonic() - began < 5
    assert run.results[0].why == "took too long and was interrupted"


def test_a_signal_during_a_grace_leaves_no_command(tmp_path: Path) -> None:
    """The command is killed, and what was created is destroyed."""
    program = "echo $$ > pid; trap 'kill -TERM $PPID' INT; while :; do sleep 0.1; done"
    shell = Shell(tmp_path, grace=3600)
    did: list[Any] = []
    up = Step("up", "", 1, lambda: shell.run("sh", "-c", program))
    run = Run(shell, Script((), [up], [Step("destroy", "", 5, lambda: did.append(1))]), 1.0, 1e9)
    assert not run.run()
    assert did == [1]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
