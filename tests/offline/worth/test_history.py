"""Exports of jobs: every form gives the same jobs, those without a runner are counted, and bad input is one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from gpu_ci.offline.worth.history import read
from tests.cases import cases
from tests.offline.worth.histories import job, repository

JOBS = repository(5)
PAGE = {"total_count": 5, "jobs": JOBS}
CSV = "created_at,started_at,completed_at,labels\n" + "".join(
    f"{one['created_at']},{one['started_at']},{one['completed_at']},self-hosted;gpu\n" for one in JOBS
)


def of(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "jobs"
    path.write_text(text, encoding="utf-8")
    return path


@cases(
    "text",
    [
        json.dumps(PAGE),
        # Pages one after another, as `gh api --paginate` prints them.
        json.dumps({"jobs": JOBS[:3]}) + "\n" + json.dumps({"jobs": JOBS[3:]}, indent=1),
        json.dumps([{"jobs": JOBS[:3]}, {"jobs": JOBS[3:]}]),
        json.dumps(JOBS),
        "\n".join(map(json.dumps, JOBS)) + "\n",
        "\ufeff" + json.dumps(PAGE),
        CSV,
    ],
)
def test_every_form_gives_the_same_jobs(text, tmp_path):
    jobs, others = read(of(text, tmp_path))
    assert [(one.waited, one.took, one.labels) for one in jobs] == [
        (one.waited, one.took, ("self-hosted", "gpu")) for one in read(of(json.dumps(PAGE), tmp_path))[0]
    ]
    assert len(jobs) == 5
    assert not others


def test_jobs_that_used_no_runner_are_counted_and_each_attempt_is_a_job(tmp_path):
    ran, rerun = job(1, 0, 60), job(2, 500, 60, run_attempt=2)
    others = [
        job(3, 0, 60, conclusion="skipped"),
        job(4, 0, 60, status="waiting", conclusion=None, completed_at=None),
        job(5, 0, 60, status="in_progress", conclusion=None, completed_at=None),
        job(6, 0, 60, runner_name="", conclusion="cancelled"),
        job(7, 0, -5, conclusion="cancelled"),
        job(8, 900, 60, wait=-600),
        ran,
    ]
    jobs, counts = read(of(json.dumps([ran, rerun, *others]), tmp_path))
    assert [one.id for one in jobs] == [1, 2]
    assert counts == {
        "skipped": 1,
        "not ended": 2,
        "ended without a runner": 2,
        "a copy of an earlier attempt": 1,
        "the same job again": 1,
    }


def test_a_job_in_containers_is_known_by_its_step_or_its_cell(tmp_path):
    steps = [{"name": "Set up job"}, {"name": "Initialize containers"}]
    jobs, _ = read(of(json.dumps([job(1, 0, 60, steps=steps), job(2, 1, 60, steps=steps[:1])]), tmp_path))
    assert [one.container for one in jobs] == [True, False]
    lines = CSV.splitlines()
    table = "\n".join([f"{lines[0]},container", f"{lines[1]},true", f"{lines[2]},false", f"{lines[3]},"])
    assert [one.container for one in read(of(table, tmp_path))[0]] == [True, False, False]


@cases(
    ("text", "line"),
    [
        ("[{", ":1: not JSON: Expecting property name enclosed in double quotes; export it again"),
        ("[]\n\n[2", ":3: not JSON: "),
        ("[" * 200_000, ":1: not JSON: "),
        ("[" + "1" * 5000 + "]", ":1: not JSON: too deep or too long"),
        ('{"message": "Not Found"}', ":1: job 1.id: Field required; export jobs, not runs"),
        ('["x"]', ":1: job 1: Input should be a valid dictionary or instance of Past; export jobs, not runs; got 'x'"),
        (json.dumps([JOBS[0], {**JOBS[1], "started_at": "soon"}]), ":1: job 2.started_at: Input should be a valid datetime"),
        (json.dumps([{**JOBS[0], "created_at": "0001-01-01T00:00:00+14:00"}]), ":1: job 1.created_at: Input should be greater"),
        (json.dumps([{**JOBS[0], "labels": "gpu"}]), ":1: job 1.labels: "),
        (CSV.replace("Z,", ",", 1), ":2: row 1.created_at: Input should have timezone info; write a time such as 2026-11-02T"),
        ("", ":1: it lacks column created_at; the first line names created_at, started_at, completed_at, labels, and may"),
        ("created_at,started_at,completed_at,labels,runs_on\n", ":1: unknown column 'runs_on'; the first line names created_at,"),
        (f"container,{CSV}".replace("\n2", "\nyes,2"), ":2: row 1.container: write true or false; got 'yes'"),
        (CSV.replace("gpu\n", "gpu,x\n", 1), ":2: row 1 has more cells than the first line; quote texts with commas"),
    ],
)
def test_wrong_input_is_one_line(text, line, tmp_path):
    with pytest.raises(InputError) as error:
        read(of(text, tmp_path))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'jobs'}:")
    assert line in str(error.value)


def test_a_missing_file_says_what_to_name(tmp_path):
    with pytest.raises(InputError, match=r"HISTORY: cannot read .*No such file.*; name a file with GitHub's answers about jobs"):
        read(tmp_path / "none")
