"""The action choose-runner: which set of an order it takes, what it reads of GitHub, and what it does without an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.loading.config import load
from fleet.prove.remarks import fallback
from tests.builders import ROOT, read_stack
from tests.cases import cases
from tests.workflows.github import REPOSITORY, TOKEN, GitHub, serving
from tests.workflows.load import program

CHOOSE: Any = program("choose-runner", "choose_runner")
NOW = datetime(2026, 7, 15, 12, 0, tzinfo=timezone.utc)  # noqa: UP017 - as the program
WEST, EAST = "gpu-t4-west", "gpu-t4-east"
PATIENCE = timedelta(minutes=10)


def waits(west: int, east: int) -> dict[str, timedelta]:
    return {WEST: timedelta(minutes=west), EAST: timedelta(minutes=east)}


@cases(
    ("minutes", "label"),
    [
        ((0, 0), WEST),
        ((9, 0), WEST),
        ((10, 0), EAST),
        ((10, 9), EAST),
        ((10, 10), WEST),
        ((60, 10), EAST),
        ((10, 60), WEST),
        ((0, 60), WEST),
    ],
)
def test_the_first_set_is_chosen_until_a_job_waits_there(minutes: tuple[int, int], label: str) -> None:
    assert CHOOSE.choose(waits(*minutes), PATIENCE) == label


@given(st.lists(st.integers(0, 99), min_size=2, max_size=5))
def test_no_set_before_the_chosen_one_has_room_and_none_has_a_shorter_wait(minutes: list[int]) -> None:
    found = {f"set-{index}": timedelta(minutes=wait) for index, wait in enumerate(minutes)}
    place = int(CHOOSE.choose(found, PATIENCE).removeprefix("set-"))
    assert all(wait >= 10 for wait in minutes[:place])
    assert minutes[place] < 10 or minutes[place] == min(minutes)


@dataclass
class Runs(GitHub):
    """The runs of train.yml by status, with their jobs."""

    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Status and answer of a request."""
        inside = path.removeprefix(f"/repos/{REPOSITORY}/")
        assert (method, query["per_page"]) == ("GET", ["100"])
        if inside == "actions/workflows/train.yml/runs":
            return 200, {"workflow_runs": self.runs.get(query["status"][0], [])}
        (run,) = [run for runs in self.runs.values() for run in runs if inside == f"actions/runs/{run['id']}/jobs"]
        return 200, {"jobs": run["jobs"]}


def a_run(number: int, *jobs: dict[str, Any]) -> dict[str, Any]:
    return {"id": number, "created_at": f"2026-07-15T10:{number:02}:00Z", "jobs": list(jobs)}


def a_job(label: str, minutes: int, **changes: Any) -> dict[str, Any]:
    """A job that waits for a runner of a set for this long."""
    created = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"
    return {"status": "queued", "runner_id": None, "labels": [label], "created_at": created} | changes


@pytest.fixture
def github() -> Iterator[Runs]:
    with serving(Runs()) as found:
        assert isinstance(found, Runs)
        yield found


@pytest.fixture
def call(github, tmp_path, monkeypatch, capsys):
    """Runs the program: its status, its lines, and its output. The token is in no output."""
    monkeypatch.setattr(CHOOSE, "_now", lambda: NOW)
    path = tmp_path / "output"
    path.touch()

    def run(**changes: str) -> tuple[int, list[str], str]:
        given_values = {
            "GITHUB_API_URL": github.url,
            "GITHUB_OUTPUT": str(path),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": TOKEN,
            "CHOOSE_LABELS": f"{WEST} {EAST.upper()}",
            "CHOOSE_WORKFLOWS": "train.yml",
            "CHOOSE_MINUTES": "10",
        }
        for name, value in (given_values | changes).items():
            monkeypatch.setenv(name, value)
        status = CHOOSE.main()
        text = "".join(capsys.readouterr())
        assert TOKEN not in text + path.read_text()
        return status, text.splitlines(), path.read_text()

    return run


def test_a_job_that_waits_long_for_the_first_set_moves_the_next_one(github, call):
    assert call() == (0, [f"{WEST}: the longest waits for a runner are {WEST} 0 minutes, {EAST} 0 minutes"], f"runs-on={WEST}\n")
    github.runs = {"in_progress": [a_run(1, a_job(WEST.upper(), 14), a_job(WEST, 3))], "queued": [a_run(2, a_job(EAST, 4))]}
    status, lines, output = call()
    assert (status, output) == (0, f"runs-on={WEST}\nruns-on={EAST}\n")
    assert lines == [f"{EAST}: the longest waits for a runner are {WEST} 14 minutes, {EAST} 4 minutes"]


@pytest.mark.parametrize(
    "changes",
    [{"status": "in_progress"}, {"status": "waiting"}, {"runner_id": 5}, {"labels": ["gpu-t4-any"]}, {"labels": [WEST, "x"]}],
)
def test_only_a_job_without_a_runner_that_asks_for_the_set_alone_counts(github, call, changes):
    github.runs = {"queued": [a_run(1, a_job(WEST, 60, **changes))]}
    assert call()[2] == f"runs-on={WEST}\n"


def test_the_oldest_runs_are_read_and_not_more_than_forty(github, call):
    github.runs = {"queued": [a_run(number, a_job(WEST, 5)) for number in range(50, 1, -1)] + [a_run(1, a_job(WEST, 30))]}
    assert call()[2] == f"runs-on={EAST}\n"
    assert len([path for _, path, _ in github.requests if path.endswith("/jobs")]) == 40


@pytest.mark.parametrize("failure", [(500, b""), (403, b"{}"), (200, b"<html>"), (200, b"{}")])
def test_without_an_answer_the_first_set_is_chosen(github, call, failure):
    github.failing[f"GET /repos/{REPOSITORY}/actions/workflows/train.yml/runs"] = failure
    status, lines, output = call()
    assert (status, output) == (0, f"runs-on={WEST}\n")
    assert lines[0].startswith("::warning::GitHub does not show what waits (")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"CHOOSE_LABELS": WEST}, "labels must name two runner sets or more, each once, such as"),
        ({"CHOOSE_LABELS": f"{WEST} {WEST}"}, "labels must name two runner sets or more, each once, such as"),
        ({"CHOOSE_LABELS": f"{WEST} a,b"}, "labels must name two runner sets or more, each once, such as"),
        ({"CHOOSE_WORKFLOWS": "train"}, "workflows must name files such as"),
        ({"CHOOSE_MINUTES": "0"}, "minutes must be a whole number from 1 to 9999; got '0'"),
    ],
)
def test_a_wrong_input_is_one_line_and_no_request(github, call, changes, line):
    status, (text,), output = call(**changes)
    assert (status, output, github.requests) == (1, "", [])
    assert text.startswith(f"::error::{line}")


def test_the_plan_prints_the_labels_that_the_page_shows():
    (line,) = [
        line for line in fallback(load(read_stack(ROOT / "examples" / "Pulumi.two-regions.yaml"))) if "choose-runner" in line
    ]
    labels = line.partition("choose-runner: labels: ")[2].partition(";")[0]
    assert labels == f"{WEST} {EAST}"
    assert f"labels: {labels}" in (ROOT / "docs" / "fallback.md").read_text()
