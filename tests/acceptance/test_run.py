"""The run in memory: order, the first failure, destroy always, budget, signals, record. No command runs."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpu_ci.acceptance.cli as command
from fleet.facts.errors import InputError
from fleet.facts.pricing import Money
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.providers.provider import Left
from gpu_ci.acceptance import record
from gpu_ci.acceptance.runner import GRACE, NOT_RUN, OK, Run, Script, Shell, Step, StepError
from gpu_ci.acceptance.steps import Steps
from gpu_ci.app import app
from tests.acceptance.fakes import ANSWERS, Fake, Looks
from tests.builders import ROOT
from tests.doctor.fleets import edited

NAMES = ["plan", "doctor", "empty", "preview", "up", "again", "job", "edit", "destroy", "leftovers"]


@pytest.fixture
def shell(tmp_path: Path) -> Fake:
    fake = Fake(tmp_path)
    fake.answers = dict(ANSWERS)
    return fake


@pytest.fixture
def scan() -> Looks:
    return Looks()


@pytest.fixture
def made(shell: Fake, scan: Looks, tmp_path: Path) -> Any:
    def make(repository: str = "", keep: bool = False, budget: float = 100.0) -> Run:
        config = load("staging", ROOT)
        private = tmp_path / "private"
        private.mkdir()
        steps = Steps("staging", config.path, fleet_of(config), shell, private, scan, repository)  # type: ignore[arg-type]
        return Run(shell, steps.script(), 16.333, budget, keep)

    return make


def statuses(run: Run) -> dict[str, str]:
    return {each.step.name: each.status for each in run.all_results}


def kinds(shell: Fake) -> list[str]:
    """The commands of Pulumi, in short."""
    return [line.split()[1] for line in shell.ran if line.startswith("pulumi ") and "stack export" not in line]


def test_every_step_runs_in_order(made: Any, shell: Fake, scan: Looks) -> None:
    run = made()
    assert run.run()
    assert [each.step.name for each in run.results] == NAMES
    assert set(statuses(run).values()) == {OK}
    assert kinds(shell) == ["preview", "up", "preview", "stack", "config", "preview", "up", "destroy"]
    assert scan.groups_deleted == 1
    assert all("--policy-pack policies" in line for line in shell.ran if re.match("pulumi (up|preview) ", line))


@pytest.mark.parametrize(("part", "step"), [("gpu_ci plan", "plan"), ("gpu_ci doctor", "doctor"), ("preview --stack", "preview")])
def test_a_failure_before_anything_is_created_destroys_nothing(made: Any, shell: Fake, part: str, step: str) -> None:
    shell.answers = {part: StepError("it failed"), **shell.answers}
    run = made()
    assert not run.run()
    assert run.results[-1].step.name == step
    assert run.results[-1].why == "it failed"
    assert "destroy" not in kinds(shell)
    assert "up" not in kinds(shell)


PAID = ("up", "again", "job", "job", "edit", "edit", "edit")
"""The step of each command from the first that creates something to the last before the end."""


def killed(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


ENDS = {
    "it failed": raising(StepError("it failed")),
    "RuntimeError: a bug": raising(RuntimeError("a bug")),
    "MemoryError: ": raising(MemoryError()),
    "interrupted by SIGINT": killed(signal.SIGINT),
    "interrupted by SIGTERM": killed(signal.SIGTERM),
    "interrupted by SIGHUP": killed(signal.SIGHUP),
}


@pytest.mark.parametrize("why", ENDS)
@pytest.mark.parametrize("place", range(len(PAID)))
def test_whatever_ends_a_paid_step_stops_and_destroys(made: Any, shell: Fake, place: int, why: str) -> None:
    def before(line: str) -> None:
        first = next((at for at, ran in enumerate(shell.ran) if "pulumi up" in ran), len(shell.ran))
        if len(shell.ran) - 1 - first == place:
            ENDS[why]()

    shell.before, step = before, PAID[place]
    run = made()
    assert not run.run()
    ended = {step: "failed"} | dict.fromkeys(NAMES[NAMES.index(step) + 1 : -2], NOT_RUN)
    assert statuses(run) == dict.fromkeys(NAMES, OK) | ended
    assert [each.why for each in run.results if each.why] == [why]
    assert kinds(shell)[-1] == "destroy"
    held = record.document(run, fleet_of(load("staging", ROOT)), date(2026, 11, 23), {})
    assert [(each["name"], each["why"]) for each in held["steps"] if "why" in each] == [(step, why)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_while_the_end_runs_change_nothing(made: Any, shell: Fake, scan: Looks, number: signal.Signals) -> None:
    """Also in the second destroy."""

    def before(line: str) -> None:
        if destroys := kinds(shell).count("destroy"):
            os.kill(os.getpid(), number)
            if destroys == 1 and "pulumi destroy" in line:
                raise StepError("a dependency")

    shell.before = before
    assert made().run()
    assert kinds(shell)[-3:] == ["destroy", "cancel", "destroy"]
    assert sum("still destroying" in line for line in shell.lines) == 4, "and for the state that leftovers reads"
    assert scan.groups_deleted == 1


def test_an_error_of_this_program_destroys_too(made: Any, shell: Fake) -> None:
    shell.answers = {"stack output": "no JSON", **{key: each for key, each in shell.answers.items() if key != "stack output"}}
    run = made()
    assert not run.run()
    assert (statuses(run)["job"], statuses(run)["destroy"]) == ("failed", OK)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_destroys_and_a_second_one_changes_nothing(made: Any, shell: Fake, number: signal.Signals) -> None:
    def interrupted() -> str:
        os.kill(os.getpid(), number)
        return ""

    shell.answers = {"up --stack": interrupted, "destroy": interrupted, **shell.answers}
    before = signal.getsignal(number)
    run = made()
    assert not run.run()
    assert {name: status for name, status in statuses(run).items() if name in ("up", "destroy", "leftovers")} == {
        "up": "failed",
        "destroy": OK,
        "leftovers": OK,
    }
    assert f"interrupted by {number.name}" in [each.why for each in run.results]
    assert shell.told("still destroying")
    assert signal.getsignal(number) == before


def test_a_machine_that_slept_destroys_when_the_budget_is_reached(made: Any, shell: Fake) -> None:
    def sleeps() -> str:
        shell.time += 3 * 86400
        return ""

    shell.answers = {"up --stack": sleeps, **shell.answers}
    run = made()
    assert not run.run()
    assert run.results[5].why == "the budget of 100.00 USD allows no more time"
    assert [each.step.name for each in run.results][-2:] == ["destroy", "leftovers"]


def test_a_run_that_reaches_its_minutes_ends_early_and_destroys(made: Any, shell: Fake) -> None:
    run = made()
    run.most = run.script.ending + 60

    def slow() -> str:
        shell.time += 61
        return ""

    shell.answers = {"up --stack": slow, **shell.answers}
    assert not run.run()
    assert run.results[5].why == "--minutes allows no more time"
    assert [result.step.name for result in run.results][-2:] == ["destroy", "leftovers"]


def test_no_step_gets_more_time_than_the_budget(made: Any, shell: Fake) -> None:
    run = made()
    run.budget = run.script.bound(run.worst)
    shell.each = 0
    starts: list[float] = []

    def slow() -> str:
        starts.append(shell.until - shell.time)
        shell.time = shell.until - 1
        return ""

    def late() -> str:
        began = shell.until - shell.time
        shell.time += 7000
        starts.append(began)
        return ""

    shell.answers = {"up --stack": late, "--expect-no-changes": slow, "gpu_ci smoke": slow, "config set": slow, **shell.answers}
    run.run()
    assert [round(each) for each in starts[:4]] == [5400, 900, 3600, 202], "the last paid step gets what the budget has left"


def test_a_destroy_that_fails_once_is_unlocked_and_tried_again(made: Any, shell: Fake) -> None:
    tries = iter(["fails", ""])

    def destroy() -> str:
        if next(tries):
            raise StepError("the stack is locked")
        return ""

    shell.answers = {"pulumi destroy": destroy, **shell.answers}
    assert made().run()
    assert kinds(shell)[-3:] == ["destroy", "cancel", "destroy"]


def test_a_destroy_that_fails_is_said_with_its_price(made: Any, shell: Fake, tmp_path: Path) -> None:
    shell.answers = {"pulumi destroy": StepError("a dependency"), **shell.answers}
    run = made()
    assert not run.run()
    assert statuses(run)["leftovers"] == OK, "it is asked although destroy failed"
    command.summary(run, tmp_path / "record.json", "staging")
    assert shell.told("The stack may still exist, at up to 16.33 USD an hour. Delete it: pulumi destroy --stack staging")


def test_keep_destroys_nothing(made: Any, shell: Fake) -> None:
    run = made(keep=True)
    assert run.run()
    assert "destroy" not in kinds(shell)


def test_a_stack_that_has_resources_is_left_alone(made: Any, shell: Fake) -> None:
    shell.answers["stack export"] = json.dumps({"deployment": {"resources": [{}, {}]}})
    run = made()
    assert not run.run()
    assert "has 2 resources already" in run.results[-1].why
    assert kinds(shell) == []


def test_what_an_earlier_stack_left_stops_the_run(made: Any, shell: Fake, scan: Looks) -> None:
    scan.looks = [[Left("a log group", "delete it")]]
    run = made()
    assert not run.run()
    assert "1 resources of an earlier stack" in run.results[-1].why
    assert kinds(shell) == []


def test_what_clouds_still_list_gets_time_and_what_stays_fails(made: Any, scan: Looks, shell: Fake) -> None:
    left = [Left("us-west-2: a volume", "aws ec2 delete-volume")]
    scan.looks = [[], left, left]
    assert made().run()
    scan.looks = [[], *[left] * 100]
    shell.lines.clear()
    run = Run(shell, made_again(shell, scan), 1.0, 100.0)
    assert not run.run()
    assert run.results[-1].why == "1 resources are left; delete them by the commands above"
    assert shell.told("aws ec2 delete-volume")


def made_again(shell: Fake, scan: Looks) -> Script:
    config = load("staging", ROOT)
    return Steps("staging", config.path, fleet_of(config), shell, shell.folder / "private", scan).script()  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["create", "delete", "replace", "create-replacement"])
def test_an_edit_that_would_do_more_than_update_fails(made: Any, shell: Fake, word: str) -> None:
    shell.answers["--json"] = json.dumps({"changeSummary": {"update": 3, word: 1}})
    run = made()
    assert not run.run()
    assert run.results[-3].why == f"the edit of tag ttl would {word} resources; it may only update"


def test_the_users_stack_file_is_not_edited(made: Any, shell: Fake, tmp_path: Path) -> None:
    made().run()
    (set_,) = (line for line in shell.ran if " config set " in f" {line} ")
    assert f"--config-file {tmp_path / 'private' / 'Pulumi.staging.yaml'}" in set_
    assert set_.endswith('--path gpu-ci:tags["ttl"] acceptance')


def test_the_jobs_of_github_are_those_of_make_smoke(made: Any, shell: Fake) -> None:
    assert made("acme/repo").run()
    smokes = [line.partition(" -m ")[2] for line in shell.ran if "gpu_ci smoke" in line]
    assert smokes[1:] == ["gpu_ci smoke --repository acme/repo -- staging"]


def test_the_page_has_each_step_with_what_it_proves_and_its_time(made: Any) -> None:
    script = made("acme/repo").script
    rows = re.findall(
        r"^\| `([\w-]+)` \| .* \| (.*) \| (\d+) min \|$", (ROOT / "docs" / "acceptance.md").read_text(), re.MULTILINE
    )
    steps = [*script.before, *script.paid, *script.end]
    assert rows == [(each.name, each.proves, str(each.seconds // 60)) for each in steps]


# -- the budget ----------------------------------------------------------------------------------------------------------


def script(*seconds: int) -> Script:
    return Script((), [Step(str(each), "", each, lambda: None) for each in seconds], ())


def test_the_bound_is_the_worst_hour_times_the_longest_time() -> None:
    assert script(3600, 1800).bound(2.0) == pytest.approx(2.0 * (1.5 + GRACE / 3600))


def test_a_budget_below_the_bound_is_refused_with_the_numbers() -> None:
    with pytest.raises(InputError) as refused:
        command.bounded(script(3600), Money(6.0), 6.5)
    assert str(refused.value) == (
        "--budget-usd: must cover 6.000 USD in the worst hour x 1.17 hours at the longest = 7.00 USD; got 6.50; "
        "lower nodes.max of the pools, or give BUDGET_USD=7"
    )
    assert "at most 6.000 USD" in command.bounded(script(3600), Money(6.0), 7)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "ten"])
def test_a_budget_that_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--budget-usd: must be a number of USD above 0"):
        command.amount(text)


def test_an_unknown_price_is_refused() -> None:
    with pytest.raises(InputError, match="does not know the price of 2 items"):
        command.bounded(script(1), Money(1.0, unknown=2), 100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("staging", "--budget-usd", "5"), "lower nodes.max of the pools, or give BUDGET_USD="),
        (("staging", "--budget-usd", "500"), "--yes: must be given without a terminal"),
        (("prod", "--budget-usd", "500"), "clusters.sjc.protect: is true"),
        (("homelab", "--budget-usd", "500"), "stack: pulumi up creates nothing of this stack"),
        (("nowhere", "--budget-usd", "500"), "stack: there must be a file for the stack"),
        (("staging", "--budget-usd", "500", "--repository", "acme"), "--repository: must be ORG/REPO; got 'acme'"),
    ],
)
def test_wrong_input_has_one_line_and_status_2_and_starts_nothing(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> bool:
        raise AssertionError("a run was started")

    monkeypatch.setattr(Run, "run", never)
    done = invoke(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["accept", *words])


@pytest.mark.parametrize(("failing", "status"), [("", 0), ("up --stack", 1)])
def test_the_command_runs_all_and_writes_the_record(
    shell: Fake, scan: Looks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: str, status: int
) -> None:
    if failing:
        shell.answers = {failing: StepError("it failed"), **shell.answers}
    monkeypatch.setattr(command, "Shell", lambda _: shell)
    monkeypatch.setattr(command, "Scan", lambda *_: scan)
    file = tmp_path / "new" / "record.json"
    done = invoke("staging", "--budget-usd", "100", "--yes", "--record", str(file))
    assert done.exit_code == status
    assert json.loads(file.read_text())["ok"] is (status == 0)
    assert shell.told("This costs at most ≤16.34 USD in the worst hour x 5.83 hours")
    assert shell.lines[-1] == f"{'FAILED' if status else 'ACCEPTED'}: the record is {file}"
    assert "destroy" in kinds(shell)


def test_a_stack_without_tags_is_refused(tmp_path: Path) -> None:
    before = (ROOT / "Pulumi.staging.yaml").read_text()
    tags = before[before.index("  gpu-ci:tags:") : before.index("  gpu-ci:clusters:")]
    with pytest.raises(InputError, match="tags: must have an entry"):
        command.require_possible(edited("staging", tmp_path, (tags, "")), "")


# -- the record ----------------------------------------------------------------------------------------------------------


def test_the_record_has_every_step_and_no_account_or_secret(made: Any, shell: Fake) -> None:
    token = "ghp_0123456789abcdefABCD0123456789abcdef"  # noqa: S105 - its form
    why = f"arn:aws:iam::123456789012:role/x and ocid1.tenancy.oc1..aaaa and {token}"
    shell.answers = {"up --stack": StepError(why), "rev-parse": "abc\n", "pulumi version": "v3.259.0\n", **shell.answers}
    run = made()
    run.run()
    held = record.document(run, fleet_of(load("staging", ROOT)), date(2026, 11, 23), {})
    text = json.dumps(held)
    assert not any(each in text for each in ("123456789012", "ocid1.", token, "staging"))
    assert (held["cloud"], held["ok"], held["commit"], held["providers"]) == (True, False, "abc", ["eks"])
    assert held["versions"]["pulumi CLI"] == "3.259.0"
    assert {each["name"]: each["status"] for each in held["steps"]} == statuses(run)
    assert [each["name"] for each in held["steps"] if "why" in each] == ["up"]
    assert held["cost"]["bound USD"] == pytest.approx(16.333 * run.script.seconds / 3600, abs=0.01)


def test_a_rehearsal_says_that_it_is_none_of_a_cloud(made: Any) -> None:
    fleet = fleet_of(load("staging", ROOT))
    held = record.document(made(), fleet, date(2026, 11, 23), {"PULUMI_DEBUG_PROVIDERS": "aws:1"})
    assert held["cloud"] is False
    assert record.path_of(date(2026, 11, 23), fleet, True) == Path("docs/acceptance/2026-11-23-eks.json")
    assert record.path_of(date(2026, 11, 23), fleet, False).name == "2026-11-23-eks-failed.json"


# -- real processes ------------------------------------------------------------------------------------------------------

PATIENT = "import signal, time; signal.signal(signal.SIGINT, lambda *_: exit(0)); print('up', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"


def test_a_command_succeeds_or_fails_by_its_status(tmp_path: Path) -> None:
    real = Shell(tmp_path)
    assert real.read(sys.executable, "-c", "print('said')") == "said\n"
    with pytest.raises(StepError, match=r"-c exit.3. ended with status 3"):
        real.run(sys.executable, "-c", "exit(3)")
    with pytest.raises(StepError, match="no-such-program cannot be started: FileNotFoundError"):
        real.run("no-such-program")


@pytest.mark.parametrize("program", [PATIENT, DEAF])
def test_a_command_that_takes_too_long_is_interrupted_and_then_killed(tmp_path: Path, program: str) -> None:
    real = Shell(tmp_path, grace=0.5)
    began = real.now()
    real.until = began + 1
    with pytest.raises(StepError, match="took too long and was interrupted"):
        real.run(sys.executable, "-c", program)
    assert real.now() - began < 20


def test_a_signal_interrupts_the_command_that_runs(tmp_path: Path) -> None:
    real = Shell(tmp_path, {**os.environ, "PARENT": str(os.getpid())}, grace=5)
    killer = f"import os; os.kill(int(os.environ['PARENT']), {int(signal.SIGTERM)}); {PATIENT}"
    did: list[str] = []
    steps = Script(
        (),
        [Step("up", "", 60, lambda: real.run(sys.executable, "-c", killer))],
        [Step("destroy", "", 60, lambda: did.append("it"))],
    )
    run = Run(real, steps, 1.0, 100.0)
    assert not run.run()
    assert [(each.step.name, each.status) for each in run.results] == [("up", "failed"), ("destroy", OK)]
    assert did == ["it"]
    assert run.results[0].seconds < 30


def test_minutes_bound_a_run_and_leave_time_for_the_end() -> None:
    steps = script(3600, 1800)
    assert command.seconds(None, steps) == math.inf
    with pytest.raises(
        InputError, match=rf"--minutes: must be above {steps.ending // 60}, which destroy and leftovers may take; got 5"
    ):
        command.seconds(5, steps)
    longest = command.seconds(int(steps.ending) // 60 + 1, steps)
    assert steps.bound(2.0, longest) == pytest.approx(2.0 * longest / 3600)
    assert "at most 6.000 USD in the worst hour x 1.00 hours" in command.bounded(script(7200), Money(6.0), 7, 3600)
