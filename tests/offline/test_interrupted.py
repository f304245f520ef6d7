"""Ctrl-C during a plan: one line that names the stage and the proof, and exit status 130."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fleet.prove import same_sets
from gpu_ci.cli import app
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.record import record
from tests.builders import ROOT
from tests.offline.test_record import config


def interrupted(*_: object) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_names_the_proof_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_sets, "fit", interrupted)
    done = CliRunner().invoke(app, ["plan", "two-regions", "--file", str(ROOT / "examples" / "Pulumi.two-regions.yaml")])
    assert done.exit_code == 130
    assert done.stderr == "error: interrupted while reading settings, in fleet.prove.same_sets\n"
    assert done.stdout == ""


def test_ctrl_c_outside_a_proof_names_the_stage_alone(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress("building resources")
    with pytest.raises(typer.Exit) as caught, progress:
        interrupted()
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "error: interrupted while building resources\n"


def test_another_error_leaves_as_it_is() -> None:
    with pytest.raises(ValueError, match="wrong"), Progress():
        raise ValueError("wrong")


def test_an_interrupted_program_ends_the_recording(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        record(interrupted, config())
