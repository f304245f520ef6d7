"""The program against a stand-in for GitHub: what it reads, what it reruns, and how it ends if GitHub does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.rerun.server import Runs, a_job, a_run, ago
from tests.rerun.world import ACTION, CANCELED, LOST, SHUTDOWN, SPOT, Answer
from tests.workflows.github import FORK, REPOSITORY, TOKEN, serving


@pytest.fixture
def github() -> Iterator[Runs]:
    with serving(Runs()) as found:
        assert isinstance(found, Runs)
        yield found


@pytest.fixture
def api(github):
    return ACTION.Api(github.url, REPOSITORY, TOKEN, pause=0)


@pytest.fixture
def call(github, tmp_path, monkeypatch, capsys):
    """Runs the program's main; whatever happens, the token is in no output."""

    def run(about: int | None = None, **changes: str) -> tuple[int, list[str]]:
        path = tmp_path / "event.json"
        path.write_text(json.dumps({"workflow_run": {"id": about}} if about else {"schedule": "17 * * * *"}))
        given = {
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": TOKEN,
            "RERUN_WORKFLOWS": "train.yml",
            "RERUN_LABELS": "GPU-T4",
            "RERUN_HOURS": "24",
            "RERUN_DRY_RUN": "false",
        }
        for name, value in (given | changes).items():
            monkeypatch.setenv(name, value)
        status = ACTION.main()
        said = "".join(capsys.readouterr())
        assert TOKEN not in said
        return status, said.splitlines()

    return run


def test_an_interrupted_run_is_rerun_and_not_again(github, call):
    lost = github.add(a_run(1), a_job(1, "failure", LOST), a_job(2, "cancelled", CANCELED), a_job(3, "success"))
    assert call(lost) == (0, [f"run {lost}: reran the failed jobs: job 1: the runner was lost or shut down"])
    assert call(lost) == (0, [f"run {lost}: it was rerun already: attempt 2"]), "the event came twice"
    github.run(lost).update(status="completed", conclusion="failure", updated_at=ago())
    assert call() == (0, []), "a rerun that is interrupted too stays as it is"
    assert github.reruns == [lost]


def test_a_sweep_finds_a_run_whose_event_was_lost(github, call):
    reclaimed = github.add(a_run(1, conclusion="cancelled"), a_job(1, "cancelled", CANCELED, SHUTDOWN))
    failed = github.add(a_run(2, head_branch="other"), a_job(2, "failure", "Process completed with exit code 1."))
    old = github.add(a_run(3, updated_at=ago(hours=25), head_branch="old"), a_job(3, "failure", LOST))
    assert call() == (
        0,
        [
            f"run {reclaimed}: reran the failed jobs: job 1: the runner was lost or shut down",
            f"run {failed}: no job was interrupted or without a runner",
        ],
    )
    assert github.reruns == [reclaimed]
    assert old not in github.reruns


def test_a_newer_run_of_the_same_branch_counts_and_none_of_a_fork(github, call):
    older = github.add(a_run(1), a_job(1, "failure", LOST))
    github.add(a_run(2, status="in_progress", conclusion=None))
    forks = github.add(a_run(3, event="pull_request"), a_job(3, "failure", LOST))
    github.add(a_run(4, event="pull_request", status="queued", conclusion=None, head_repository={"full_name": FORK}))
    assert call()[1] == [
        f"run {older}: a newer run exists, which a rerun could cancel",
        f"run {forks}: reran the failed jobs: job 3: the runner was lost or shut down",
    ]


def test_the_name_of_a_job_is_no_command_to_the_runner(github, call):
    job = a_job(1, "failure", LOST) | {"name": "\n::error::##[add-mask]a"}
    lost = github.add(a_run(1, head_repository={"full_name": FORK}), job)
    assert call()[1] == [f"run {lost}: reran the failed jobs:  ::error::# #[add-mask]a: the runner was lost or shut down"]


def test_a_dry_run_says_what_it_would_do(github, call):
    lost = github.add(a_run(1), a_job(1, "failure", LOST))
    assert call(RERUN_DRY_RUN="true")[1] == [f"run {lost}: would rerun the failed jobs: job 1: the runner was lost or shut down"]
    assert github.reruns == []


def test_every_page_is_read(github, call):
    many = [a_job(number, "success") for number in range(2, 150)]
    lost = github.add(a_run(1), *many, a_job(1, "failure", *["a remark"] * 100, LOST))
    assert call()[1] == [f"run {lost}: reran the failed jobs: job 1: the runner was lost or shut down"]


def test_no_annotation_is_read_if_no_job_of_a_judged_set_failed(github, call):
    github.add(a_run(1), a_job(1, "failure", LOST, labels=("ubuntu-24.04",)), a_job(2, "success"))
    assert call()[1] == ["run 1001: no job was interrupted or without a runner"]
    assert not [path for _, path, _ in github.requests if "annotations" in path], "GitHub counts requests"


def test_the_last_look_comes_right_before_the_call(github, call):
    lost = github.add(a_run(1), a_job(1, "failure", LOST))
    call(lost)
    *_, jobs, notes, run, others, rerun = [path.removeprefix(f"/repos/{REPOSITORY}/") for _, path, _ in github.requests]
    assert (jobs, notes) == (f"actions/runs/{lost}/attempts/1/jobs", "check-runs/1/annotations")
    assert (run, others) == (f"actions/runs/{lost}", "actions/workflows/7/runs")
    assert rerun == f"actions/runs/{lost}/rerun-failed-jobs"


# -- GitHub does not answer, or says no --------------------------------------------------------------------------------


def test_a_rerun_that_runs_already_is_no_error(github, api):
    lost = github.add(a_run(1, status="in_progress"))
    assert api.rerun(lost) is Answer.RUNNING


@pytest.mark.parametrize("status", [500, 502])
def test_a_rerun_without_an_answer_is_never_asked_for_again(github, call, status):
    lost = github.add(a_run(1), a_job(1, "failure", LOST))
    github.failing[f"POST /repos/{REPOSITORY}/actions/runs/{lost}/rerun-failed-jobs"] = (status, b"")
    done, [line] = call(lost)
    assert done == 0
    assert line.startswith(f"run {lost}: GitHub's answer was lost; the next sweep looks again")
    assert github.reruns == [lost]


def test_a_missing_permission_is_an_error_and_the_other_runs_are_judged(github, call):
    first, second = (github.add(a_run(n, head_branch=f"b{n}"), a_job(n, "failure", LOST)) for n in (1, 2))
    github.failing[f"POST /repos/{REPOSITORY}/actions/runs/{first}/rerun-failed-jobs"] = (403, b'{"message": "Forbidden"}')
    status, lines = call()
    assert status == 1
    assert lines[0] == (
        f"::error::run {first}: POST /actions/runs/{first}/rerun-failed-jobs: 403 Forbidden; the job needs actions: write"
    )
    assert github.run(second)["run_attempt"] == 2


@pytest.mark.parametrize(("failure", "asked"), [((503, b""), 3), ((404, b""), 1), ((200, b"<html>"), 3)])
def test_reading_is_tried_again_only_where_that_can_help(github, api, failure, asked):
    lost = github.add(a_run(1))
    github.failing[f"GET /repos/{REPOSITORY}/actions/runs/{lost}"] = failure
    with pytest.raises(ACTION.RefusedError, match=f"GET /actions/runs/{lost}: "):
        ACTION.judge(api, lost, SPOT)
    assert len(github.requests) == asked
    assert github.reruns == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"RERUN_WORKFLOWS": "train"}, "workflows must name files such as \"train.yml\", separated by spaces; got ['train']"),
        ({"RERUN_WORKFLOWS": ""}, 'workflows must name files such as "train.yml", separated by spaces; got []'),
        ({"RERUN_LABELS": " "}, 'labels must name at least one runner set, such as "gpu-t4"; got none'),
        ({"RERUN_HOURS": "0"}, "hours must be a number above 0, at most 696 (GitHub reruns for 30 days); got 0"),
        ({"RERUN_HOURS": "a day"}, "hours must be a number above 0, at most 696 (GitHub reruns for 30 days); got a day"),
    ],
)
def test_a_wrong_input_is_one_line(call, changes, line):
    assert call(**changes) == (1, [f"::error::{line}"])
