"""The plan prints what each window of a schedule costs in a week, for people, for pull requests and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.cli import app

POOL = "          nodes: {min: 0, max: 2}\n"
SCHEDULES = (
    "          schedules: {timeZone: America/Los_Angeles, "
    'windows: {work: {days: [mon, tue, wed, thu, fri], start: "09:00", end: "18:00", nodes: 1}}}\n'
)


@pytest.fixture(scope="module")
def stack_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (ROOT / "Pulumi.staging.yaml").read_text(encoding="utf-8")
    before, name, after = text.partition("        t4-release:\n")
    assert POOL in after
    path = tmp_path_factory.mktemp("schedules") / "Pulumi.staging.yaml"
    path.write_text(before + name + after.replace(POOL, POOL + SCHEDULES, 1), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources have no price."""
    monkeypatch.setattr(gpu_ci.offline.plan, "has_sdk", lambda: False)


def planned(stack_file: Path, *options: str) -> str:
    found = CliRunner().invoke(app, ["plan", "staging", "--file", str(stack_file), *options], env={"COLUMNS": "200"})
    return found.stdout


def test_the_week_is_that_of_the_plans_day(stack_file: Path) -> None:
    text = planned(stack_file, "--as-of", "2026-12-21")
    assert "Schedules, the week of 2026-12-21 to 2026-12-27" in text
    (line,) = (line for line in text.splitlines() if "t4-release/work" in line)
    assert line.split()[-4:] == ["node", "45", "+1", "33.84"]
    (billed,) = (line for line in text.splitlines() if "pool t4-release  " in line)
    assert "0-2 (average 0.27)" in billed, "45 of 168 hours, in a few digits"
    assert "idle 265 USD a month, 416 with schedules" in text


def test_pull_requests_and_programs_have_the_same_week(stack_file: Path) -> None:
    row = "| `usw2/pool t4-release/work` | mon,tue,wed,thu,fri 09:00-18:00 America/Los\\_Angeles | 1 node | 45 | +1 | 33.84 |"
    assert row.replace("\\_", "_") in planned(stack_file, "--markdown").replace("\\_", "_")
    found: list[dict[str, Any]] = json.loads(planned(stack_file, "--json"))["schedules"]
    assert [(each["name"], each["hours"], each["nodes"]) for each in found] == [("usw2/pool t4-release/work", 45, [1, 1])]
    assert [each["usd"] for each in found[0]["usd"]] == [33.84, 33.84]
