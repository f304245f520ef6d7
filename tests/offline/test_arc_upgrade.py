"""`gpu-ci arc-upgrade`: the commands for another minor, nothing to do, wrong input."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fleet.facts.versions import CHARTS
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.loading.home import ROOT
from fleet.render.arc import SETS, upgrade
from gpu_ci.cli import app

PINNED = CHARTS[SETS].version


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["arc-upgrade", "staging", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(("option", "old", "new"), [("--to", PINNED, "9.0.0"), ("--from", "0.1.0", PINNED)])
def test_the_other_version_is_the_pinned_one(option: str, old: str, new: str) -> None:
    steps = upgrade(fleet_of(stackfile.load("staging", ROOT)), "staging", old, new)
    assert run(option, new if option == "--to" else old) == (0, "".join(f"{line}\n" for line in steps), "")
    assert len(steps) > 10


def test_within_a_minor_it_says_that_pulumi_up_is_enough() -> None:
    assert run() == (
        0,
        f"# ARC {PINNED} -> {PINNED}: the minor is the same, or the stack has no runner set. `pulumi up` alone is enough.\n",
        "",
    )


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize("value", ["0.15", "latest", "v0.15.0", "0.15.0; rm -rf /"])
def test_a_wrong_version_is_one_line(option: str, value: str) -> None:
    assert run(option, value) == (
        2,
        "",
        f"error: {option}: must be a version of three numbers such as {PINNED}; got {value!r}; correct it\n",
    )
