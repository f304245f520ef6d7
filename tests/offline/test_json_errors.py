"""Wrong input as JSON: with --json every command prints its errors on stdout too, with status 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fleet.loading.home import ROOT
from gpu_ci.cli import app
from tests.offline.staging import line_of, write

PARTS = {"file", "line", "path", "rule", "message", "value"}


def errors(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["errors"]
    assert all(each.keys() == PARTS for each in found)
    assert len([line for line in result.stderr.splitlines() if line.startswith("error: ")]) == len(found), "people read stderr"
    return found


@pytest.fixture
def slip(tmp_path: Path) -> Path:
    return write(tmp_path, ("idleDelay: 5m", "idleDely: 5m"))


@pytest.mark.parametrize("command", ["plan", "start", "doctor"])
def test_an_error_of_the_settings_has_every_part(command: str, slip: Path) -> None:
    (found,) = errors(command, "staging", "--json", "--file", str(slip))
    assert found == {
        "file": str(slip),
        "line": line_of(slip, "idleDely"),
        "path": "gpu-ci:clusters.usw2.pools.t4-spot.idleDely",
        "rule": "extra_forbidden",
        "message": "unknown key; did you mean idleDelay?",
        "value": '"5m"',
    }


def test_explain_and_check_have_them_too(slip: Path, tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}]}\n")
    assert errors("explain", "staging", str(pod), "--json", "--file", str(slip))[0]["line"] == line_of(slip, "idleDely")
    pod.write_text("apiVersion: v1\nkind: Pod\nkind: Pod\n")
    (found,) = errors("check", "staging", str(pod), "--json")
    assert (found["file"], found["line"]) == (str(pod), 3)


def test_a_folder_without_anything_to_audit_is_an_error(tmp_path: Path) -> None:
    (found,) = errors("audit", str(tmp_path), "--json")
    assert found["path"] == "PATH"
    assert found["message"].startswith(f"{tmp_path} has no workflow, nothing of ARC and no node pool")


def test_a_target_that_is_no_run_is_an_error(slip: Path) -> None:
    (found,) = errors("why", "https://github.com/acme/app", "--json")
    assert (found["path"], found["message"][:20]) == ("TARGET", "not the URL of a run")
    url = "https://github.com/acme/app/actions/runs/7"
    assert errors("why", url, "--json", "--stack", "staging", "--file", str(slip))[0]["line"] == line_of(slip, "idleDely")


def test_a_state_that_is_none_is_an_error(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("{}")
    (found,) = errors("pending", "staging", "--json", "--state", str(state))
    assert found["path"].startswith("--state")
    assert "must be the JSON that pulumi stack export prints" in found["message"]


@pytest.mark.parametrize("command", ["plan", "start", "calendar", "pending", "who-can"])
def test_an_unknown_stack_and_a_wrong_option_are_errors_without_a_file(command: str) -> None:
    (found,) = errors(command, "stagin", "--json")
    assert found["message"].endswith("Pulumi.stagin.yaml does not exist; did you mean staging?")
    assert (found["file"], found["line"], found["path"]) == ("", None, "stack")
    if command in ("pending", "who-can"):
        return
    assert errors(command, "staging", "--json", "--as-of", "never")[0]["path"] == "--as-of"


def test_a_credential_in_a_wrong_value_is_masked(tmp_path: Path) -> None:
    private = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
    path = write(tmp_path, ("role: burst", f"role: {private}"))
    (found,) = errors("plan", "staging", "--json", "--file", str(path))
    assert private not in json.dumps(found)


def test_no_command_with_json_is_left_out() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # several commands are a group
    with_json = {name for name, command in commands.items() if any("--json" in each.opts for each in command.params)}
    assert with_json == {
        "plan",
        "check",
        "explain",
        "start",
        "doctor",
        "calendar",
        "freshen",
        "audit",
        "why",
        "worth",
        "pending",
        "who-can",
    }, "test a new one here"


def test_an_explanation_as_json_says_where_a_pod_runs(tmp_path: Path) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        "spec: {containers: [{name: a, image: b, resources: {limits: {nvidia.com/gpu: 1}}}]}\n"
    )
    result = CliRunner().invoke(app, ["explain", "Pulumi.staging.yaml", str(pod), "--json"])
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["pods"]
    assert found["runs"] is False
    reasons = found["pools"][0]["reasons"]
    assert reasons
    assert all(reason["reason"] and reason["fix"] for reason in reasons), "each reason has its fix"


def test_the_name_of_a_stack_file_is_taken_as_the_stack() -> None:
    assert json.loads(CliRunner().invoke(app, ["start", "Pulumi.staging.yaml", "--json"]).stdout)["stack"] == "staging"


def test_the_version_is_that_of_the_project() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert f'version = "{result.stdout.removeprefix("gpu-ci ").strip()}"' in (ROOT / "pyproject.toml").read_text()
