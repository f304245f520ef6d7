"""Flags, questions and errors of `init`, and that it writes all files or none."""

from __future__ import annotations

import math
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_ci.cli import app
from gpu_ci.offline.commands import init
from gpu_ci.offline.init import files, questions
from gpu_ci.offline.policyconfig import STACKS
from tests.builders import ROOT
from tests.offline.init.conftest import Project
from tests.offline.init.test_fleets import FLEETS

TALOS: dict[str, Any] = {"provider": "talos", "region": None, "gpu": None}
GIVEN = {"--provider": "eks", "--region": "us-west-2", "--gpu": "T4", "--organization": "acme", "--jobs": "tests"}


def run(stack: str = "acme", answers: str | None = None, **changes: str | None):
    """`init` with the flags of GIVEN. `changes` replace flags, or leave them out if they are None."""
    flags = GIVEN | {f"--{key.replace('_', '-')}": value for key, value in changes.items()}
    words = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    return CliRunner().invoke(app, ["init", stack, *words], input=answers)


@pytest.mark.parametrize("flag", GIVEN)
def test_without_a_terminal_a_missing_flag_is_one_error_line(flag: str, project: Project):
    before = project.files
    cut: dict[str, Any] = {flag.removeprefix("--"): None}
    done = run(**cut)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {flag}: required without a terminal; add {flag}")
    assert done.stderr.count("\n") == 1
    assert project.files == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"provider": "gke"}, "--provider: not known; got 'gke'; did you mean oke? give one of: eks, oke, talos, existing-eks"),
        ({"region": "us-west-1"}, "--region: not known; got 'us-west-1'; did you mean us-west-2? give one of: us-west-2,"),
        ({"gpu": "A10"}, "--gpu: not known; got 'A10'; did you mean A10G? give one of: T4, L4, A10G"),
        (
            {"jobs": "tests,containers"},
            "--jobs of provider eks: not known; got 'containers'; give one of: tests, release, training",
        ),
        ({"jobs": ","}, "--jobs: name at least one of: tests, release, training"),
        ({"gpu": "RTX3090", "provider": "talos"}, "--region: provider talos has no regions; remove it"),
        ({"organization": "https://github.com/enterprises/acme"}, "--organization: a GitHub App cannot register runners of an"),
        ({"organization": "a b"}, "--organization: not a GitHub scope; write https://github.com/<organization>"),
        ({"budget": "12"}, "--budget: a budget is USD an hour or a month, such as 5/hour or 3000/month; got '12'"),
        ({"budget": "1/hour"}, "--budget: the smallest fleet with T4 for these jobs costs "),
        ({"kind": "acme"}, "--kind: not known; got 'acme'; give one of: dev, staging, prod"),
        (
            {"provider": "existing-context"},
            "--provider existing-context: it reads the GPU nodes of a cluster; give --from-context",
        ),
        (
            {"provider": "talos", "region": None, "gpu": None, "budget": "3/hour"},
            "--budget: provider talos buys no machines; remove it",
        ),
        (TALOS, "--machines: required without a terminal; add --machines"),
        (TALOS | {"gpu": "RTX 3090"}, "--gpu: with provider talos init reads the GPUs of your machines or nodes; remove --gpu"),
        ({"machines": "more.yaml"}, "--machines: only provider talos has machines of your own; remove it"),
        (TALOS | {"machines": "no.yaml"}, "--machines: no.yaml cannot be read (No such file or directory); name a file of probe"),
        (TALOS | {"machines": "Makefile"}, "Makefile:"),
        (TALOS | {"machines": "Pulumi.yaml"}, "--machines: Pulumi.yaml:name: unknown key; known keys: machines"),
        (
            TALOS | {"machines": "tests/offline/init/tower.yaml", "jobs": "training"},
            "--jobs: training needs a node with several GPUs, and the cluster has none; write --jobs tests",
        ),
        (
            {"provider": "oke", "region": "us-sanjose-1", "gpu": "H100", "jobs": "containers"},
            "--jobs: containers needs a VM shape",
        ),
    ],
)
def test_a_wrong_value_is_one_error_line(changes: dict[str, Any], message: str, project: Project):
    before = project.files
    done = run(**changes)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.stderr.splitlines() if line != "… planning the fleet"]
    assert line.startswith(f"error: {message}")
    assert project.files == before


@pytest.mark.parametrize("name", ["Acme", "acme_1", "a" * 31, "-a", "1a", "a.b", "../a"])
def test_a_name_that_clouds_refuse_is_refused(name: str, project: Project):
    done = CliRunner().invoke(app, ["init", "--provider", "eks", "--", name])
    assert done.exit_code == 2
    assert "error: STACK: a new stack's name has 1 to 30 lower-case letters" in done.stderr


@pytest.mark.parametrize("name", ["true", "null"])
def test_a_name_that_yaml_reads_as_another_type_stays_a_name(name: str, project: Project):
    assert run(name).exit_code == 0
    assert project.made[0].plan.config.objects["gpu-ci:tags"]["stack"] == name  # type: ignore[index] # a mapping


@pytest.mark.parametrize("held", ["Pulumi.acme.yaml", "policies/config/acme.json", "policies/stacks.toml"])
def test_nothing_is_overwritten(held: str, project: Project):
    path = project.root / held
    path.write_text((path.read_text() if path.exists() else "mine\n") + '\n[acme]\nkind = "dev"\n' * (path.suffix == ".toml"))
    before = project.files
    done = run()
    assert done.exit_code == 2
    assert "error: STACK: stack acme exists already" in done.stderr
    assert held in done.stderr
    assert project.files == before


def test_a_file_that_appears_while_the_fleet_is_planned_stays(project: Project, monkeypatch: pytest.MonkeyPatch):
    def late(new: files.New, root: Path) -> None:
        (root / "policies/config/acme.json").write_text("mine")
        files.write(new, root)

    monkeypatch.setattr(init, "write", late)
    before = project.files
    assert run().exit_code == 2
    assert project.files == before | {"policies/config/acme.json": "mine"}


def test_a_fleet_that_fails_its_own_plan_is_not_written(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "tables", lambda answers, fleet, day: '\n[acme]\nkind = "staging"\n')
    project.judged = True
    before = project.files
    done = run()
    assert done.exit_code == 2
    assert "error: the fleet of these answers does not pass its own plan: " in done.stderr
    assert project.files == before


@pytest.mark.parametrize("failing", ["policies/config/acme.json", "policies/stacks.toml"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_nothing(failing: str, error: BaseException, project: Project, monkeypatch):
    before = project.files
    link, replace = Path.hardlink_to, Path.replace

    def fails(does):
        def call(self, target):
            if failing in str(self) or failing in str(target):
                raise error
            return does(self, target)

        return call

    monkeypatch.setattr(Path, "hardlink_to", fails(link))
    monkeypatch.setattr(Path, "replace", fails(replace))
    done = run()
    assert done.exit_code != 0
    assert project.files == before


def test_stacks_toml_keeps_its_text_and_grows_at_the_end(project: Project):
    shutil.copy(ROOT / STACKS, project.root / STACKS)
    before = (project.root / "policies" / "stacks.toml").read_text()
    assert run().exit_code == 0
    after = (project.root / "policies" / "stacks.toml").read_text()
    assert after.startswith(before)
    assert tomllib.loads(after[len(before) :])["acme"]["kind"] == "staging"
    assert {name for name in project.files if "acme" in name} == {"Pulumi.acme.yaml", "policies/config/acme.json"}, (
        "no draft is left"
    )


def test_it_ends_with_placement_price_and_the_next_step(project: Project):
    lines = run().stdout.splitlines()
    assert lines[0] == "Wrote Pulumi.acme.yaml, policies/stacks.toml, policies/config/acme.json."
    assert "  gpu-t4: 5 jobs at the same time in t4-spot, t4-ondemand" in lines
    assert any(
        re.fullmatch(r"  price: 0\.363 USD an hour without jobs \(265 a month\), ≤10\.\d+ at worst", line) for line in lines
    )
    assert any("make plan STACK=acme" in line for line in lines)
    assert "docs/getting-started.md" in lines[-1]


def test_a_budget_without_a_gpu_chooses_the_cheapest(project: Project):
    assert run(gpu=None, budget="12/hour", jobs="tests,release").exit_code == 0
    (new,) = project.made
    assert new.answers.gpu == "T4"
    sizes = {name: pool.nodes.max for _, cluster in new.plan.fleet.clusters_by_name() for name, pool in cluster.pools.items()}
    assert sizes == {"t4-spot": 3, "t4-ondemand": 1, "t4-release": 1}
    assert tomllib.loads(new.files["policies/stacks.toml"])["acme"]["stack-cost-ceiling"]["worstUsdPerHour"] == 12


def test_a_budget_chooses_no_gpu_that_new_drivers_leave_out(project: Project):
    assert run(provider="oke", region="us-ashburn-1", gpu=None, budget="12/hour").exit_code == 0
    assert project.made[0].answers.gpu == "A10", "P100 costs less, but driver 580 is its last"


def test_a_larger_budget_has_more_nodes(project: Project):
    for stack, usd in (("small", "9/hour"), ("large", "15/hour")):
        assert run(stack, budget=usd).exit_code == 0
    small, large = (new.plan.fleet.clusters["usw2"].pools["t4-spot"].nodes.max for new in project.made)
    assert small < large


def test_on_a_terminal_it_asks_for_what_no_flag_gives(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "on_terminal", lambda: True)
    done = CliRunner().invoke(app, ["init", "acme", "--jobs", "tests"], input="gke\neks\n\nL4\n\nacme\n")
    assert done.exit_code == 0, done.output
    (new,) = project.made
    assert (new.answers.provider, new.answers.region, new.answers.gpu) == ("eks", "us-west-2", "L4")
    assert "--provider: not known; got 'gke'" in done.stdout
    assert done.stdout.count("Which GitHub organization") == 2, "it has no default"
    assert "Which kinds of jobs" not in done.stdout, "a flag gave it"


def test_a_budget_is_also_an_answer(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "on_terminal", lambda: True)
    done = run(gpu=None, answers="7/hour\n")
    assert done.exit_code == 0, done.output
    assert project.made[0].answers.budget == 7


def test_an_end_of_the_input_at_a_question_is_one_error_line(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "on_terminal", lambda: True)
    done = run(region=None, answers="")
    assert (done.exit_code, done.stderr) == (2, "error: --region: the input ended without an answer; give this option\n")
    assert project.made == []


def test_ctrl_c_at_a_question_leaves_nothing_and_no_color_is_plain():
    """The command itself, on a terminal."""
    leader, follower = pty.openpty()
    before = (ROOT / "policies" / "stacks.toml").read_text()
    command = [sys.executable, "-m", "gpu_ci", "init", "ctrl-c", "--provider", "eks"]
    env = os.environ | {"NO_COLOR": "1", "TERM": "xterm-256color"}
    # A shell that runs the tests in its background ignores Ctrl-C, and its children would too.
    before_it = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=follower, stdout=follower, stderr=follower, start_new_session=True, env=env
        )
    finally:
        signal.signal(signal.SIGINT, before_it)
    os.close(follower)
    shown = b""
    try:
        while b"Which region" not in shown and child.poll() is None:
            if select.select([leader], [], [], 1)[0]:
                shown += os.read(leader, 4096)
        while child.poll() is None:
            # Python can miss a signal that arrives just before it waits for input.
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.wait(2)
    finally:
        child.kill()
        child.wait()
        os.close(leader)
    assert child.returncode not in (0, 70)
    assert b"Which region" in shown
    assert b"Traceback" not in shown
    assert b"\x1b" not in shown, "an escape sequence"
    assert not (ROOT / "Pulumi.ctrl-c.yaml").exists()
    assert (ROOT / "policies" / "stacks.toml").read_text() == before


def test_it_says_from_how_many_hours_on_a_fleet_is_worth_it(project: Project):
    done = run()
    (new,) = project.made
    idle, node, github = new.plan.average.usd, 0.752, 0.052 * 60
    hours = math.ceil(idle * 730 / (github - node))
    assert 100 < hours < 120, "market.md counts 107 for the smallest fleet"
    assert f"  below about {hours} GPU hours a month GitHub's T4 runners, 3.12 USD an hour, are cheaper\n" in done.output


def test_machines_of_one_s_own_are_not_compared_with_github(project: Project):
    done = CliRunner().invoke(app, ["init", "home", *FLEETS["home"].split()])
    assert done.exit_code == 0
    assert "GitHub's T4 runners" not in done.output
