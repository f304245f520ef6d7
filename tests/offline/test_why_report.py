"""`gpu-ci why --report`: queue times and use of each runs-on, from runs on loopback."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpu_ci.doctor.sources.actions import Job
from gpu_ci.offline.why.usage import Use, uses
from tests.examples import examples
from tests.offline.actions_server import ANSWERED, NOW, github, invoke, job, pages, why

DAY = ("--as-of", "2026-11-27")
RUNS = "/repos/example/app/actions/runs"
START = datetime(2026, 11, 23, 12, tzinfo=UTC)


def ran(number: int, wait: int, hours: float, *labels: str, **changes: Any) -> dict[str, Any]:
    """A job that waited for seconds and then ran for hours."""
    started = START + timedelta(seconds=wait)
    times = {"created_at": START.isoformat(), "started_at": started.isoformat()}
    ended = {"completed_at": (started + timedelta(hours=hours)).isoformat()}
    return job(number, "train", *labels, status="completed", **times | ended | changes)


def of_runs(jobs: list[dict[str, Any]], runs: int = 1) -> dict[str, ANSWERED]:
    """A week of runs, the first of which has the jobs."""
    listed = [{"id": number, "status": "completed", "conclusion": "success"} for number in range(1, 1 + runs)]
    content = pages(f"{RUNS}?created=2026-11-21..2026-11-27", "workflow_runs", listed)
    for run in range(1, 1 + runs):
        content |= pages(f"{RUNS}/{run}/jobs?filter=latest", "jobs", jobs if run == 1 else [])
    return content


def rows(*words: str, now: datetime = NOW, **content: Any) -> list[dict[str, Any]]:
    """The uses at a time, as JSON has them."""
    done = why(of_runs(**content), "--report", *DAY, *words, "--json", target="example/app", now=now)
    assert done.exit_code == 0, done.output
    listed: list[dict[str, Any]] = json.loads(done.stdout)["uses"]
    return listed


def test_waits_and_hours_are_added_up_by_labels_without_case_and_order() -> None:
    jobs = [ran(1, 10, 1), ran(2, 30, 2), ran(3, 600, 3), ran(4, 5, 0.5, "b", "GPU"), ran(5, 15, 0.5, "gpu", "B")]
    first, second = rows(jobs=jobs)
    assert first["labels"] == ["gpu-t4"]
    assert (first["jobs"], first["hours"], first["groups"]) == (3, 6, ["gpu"])
    assert first["wait"] == {"median": 30, "90%": 600, "longest": 600}
    assert (second["labels"], second["jobs"], second["wait"]["median"]) == (["b", "gpu"], 2, 5)


def test_what_is_no_wait_for_a_runner_does_not_count() -> None:
    skipped = ran(2, 10, 1, runner_name="", conclusion="skipped")
    of_an_earlier_attempt = ran(3, -60, 1)
    [row] = rows(jobs=[ran(1, 10, 1), skipped, of_an_earlier_attempt, job(4), ran(6, 1, 1, completed_at=None)])
    assert (row["jobs"], row["hours"], row["waiting"]) == (2, 1, 1)


def test_jobs_without_labels_have_a_row_for_each_group() -> None:
    jobs = [ran(1, 10, 2, labels=[]), ran(2, 10, 1, labels=[], runner_group_name="b"), job(3, labels=[]), ran(4, 1, 1, labels=[])]
    shown = [(row["labels"], row["groups"], row["jobs"], row["hours"], row["waiting"]) for row in rows(jobs=jobs)]
    assert shown == [([], ["gpu"], 2, 3, 0), ([], ["b"], 1, 1, 0), ([], [], 0, 0, 1)]
    text = why(of_runs(jobs), "--report", *DAY, target="example/app").stdout
    assert "No job" not in text
    assert "| a group alone | `gpu` | 2 |" in text


def test_a_job_that_still_runs_counts_until_now() -> None:
    runs_since = ran(1, 60, 1, completed_at=None) | {"status": "in_progress"}
    [row] = rows(jobs=[runs_since], now=START + timedelta(hours=5, seconds=60))
    assert (row["jobs"], row["hours"]) == (1, 5)


@pytest.mark.parametrize(
    ("now", "share"),
    [
        (datetime(2026, 11, 24, tzinfo=UTC), 24 / (3 * 24 * 2)),
        (datetime(2026, 11, 27, 12, tzinfo=UTC), 24 / (6.5 * 24 * 2)),
        (datetime(2026, 11, 28, tzinfo=UTC), 24 / (7 * 24 * 2)),
        (datetime(2027, 1, 1, tzinfo=UTC), 24 / (7 * 24 * 2)),
        (datetime(2026, 11, 21, tzinfo=UTC), None),
    ],
)
def test_use_counts_only_hours_that_have_passed(now: datetime, share: float | None) -> None:
    [row] = rows("--stack", "staging", jobs=[ran(1, 0, 24, "gpu-t4-release")], now=now)
    assert row["share"] == (share if share is None else pytest.approx(share))


def test_use_is_the_part_of_the_hours_that_the_sets_of_a_stack_may_have() -> None:
    [row] = rows("--stack", "staging", jobs=[ran(1, 0, 168, "gpu-t4-release")])
    assert row["share"] == 0.5, "one of two runners worked all week"
    [row] = rows(jobs=[ran(1, 0, 168, "gpu-t4-release")])
    assert row["share"] is None


def test_markdown_has_a_row_for_each_runs_on_and_hostile_labels_are_text() -> None:
    jobs = [ran(1, 90, 1), ran(2, 150, 1), ran(3, 9000, 0.5, "@team|<b>", "`x`")]
    done = why(of_runs(jobs), "--report", *DAY, target="https://github.com/example/app")
    lines = done.stdout.splitlines()
    assert lines[0] == "## Queue times of example/app, 2026-11-21 to 2026-11-27"
    assert lines[2] == "Runs: 1."
    assert lines[6] == "| `gpu-t4` | `gpu` | 2 | 90 s | 2 min | 2 min | 0 | 2.0 |  |"
    assert lines[7].count("|") - lines[7].count("\\|") == 10
    assert "@team" not in done.stdout


def test_a_label_that_is_a_command_of_the_runner_is_none_in_the_log_and_stays_in_json() -> None:
    jobs = [ran(1, 90, 1, "##[error]x", runner_group_name="##[warning]y")]
    assert "##[" not in why(of_runs(jobs), "--report", *DAY, target="example/app").stdout
    [row] = rows(jobs=jobs)
    assert (row["labels"], row["groups"]) == (["##[error]x"], ["##[warning]y"])


def test_a_run_that_was_deleted_meanwhile_is_not_read_and_named() -> None:
    content = of_runs([ran(1, 1, 1)], runs=2)
    content = {path: answer for path, answer in content.items() if not path.startswith(f"{RUNS}/2/")}
    done = why(content, "--report", *DAY, target="example/app")
    assert done.exit_code == 0, done.output
    assert "Runs: 2, of which 1 were read. GitHub no longer has 1, which were deleted meanwhile." in done.stdout
    made = json.loads(why(content, "--report", *DAY, "--json", target="example/app").stdout)
    assert (made["total"], made["read"], made["gone"]) == (2, 1, 1)


def test_a_report_reads_the_newest_500_runs_and_says_so() -> None:
    with github(of_runs([ran(1, 1, 1)], runs=510)) as server:
        done = invoke("example/app", "--report", *DAY)
    bounds = "So Jobs, Waiting now, Runner hours and Use are lower bounds."
    assert f"Runs: 510, of which the newest 500 were read. {bounds}" in done.stdout
    assert "lower bounds" not in why(of_runs([ran(1, 1, 1)]), "--report", *DAY, target="example/app").stdout
    assert len(server.asked) == 505


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (1, "Runs: 1. No job had a runner or waits for one."),
        (501, "Runs: 501, of which the newest 500 were read. No job that was read had a runner or waits for one."),
    ],
)
def test_a_week_without_jobs_says_so(runs: int, text: str) -> None:
    cancelled_in_the_queue = ran(1, 1, 1, runner_name=None, conclusion="cancelled")
    done = why(of_runs([cancelled_in_the_queue], runs), "--report", *DAY, target="example/app")
    assert done.stdout.splitlines()[2] == text


@pytest.mark.parametrize("words", [("--days", "0"), ("--days", "91"), ("--json", "--markdown"), ("--file", "x")])
def test_options_that_do_not_fit_are_refused(words: tuple[str, ...]) -> None:
    assert invoke("example/app", "--report", *words).exit_code == 2


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100)), min_size=1, max_size=40))
def test_the_parts_of_the_waits_are_waits_of_jobs_in_order(times: list[tuple[int, float]]) -> None:
    [use] = uses([Job.model_validate(ran(number, wait, hours)) for number, (wait, hours) in enumerate(times)], 168, None, NOW)
    median, most, longest = (use.wait(part) or 0 for part in (0.5, 0.9, 1))
    assert {median, most, longest} <= {wait for wait, _ in times}
    assert sum(wait <= median for wait, _ in times) >= len(times) / 2
    assert sum(wait <= most for wait, _ in times) >= len(times) * 0.9 - 1e-9
    assert median <= most <= longest == max(wait for wait, _ in times)
    assert use.hours == pytest.approx(sum(hours for _, hours in times), abs=0.001)


def test_without_a_job_that_started_there_is_no_wait() -> None:
    assert Use((), (), (), 0, 1, None).wait(0.5) is None
