"""The program against a stand-in for GitHub: what it reads, what it reruns, and how it ends if GitHub does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.rerun.server import NOW, Runs, a_job, a_run, a_waiting_job, a_wake, ago
from tests.rerun.world import ACTION, CANCELED, LOST, SHUTDOWN, SPOT, Answer
from tests.workflows.github import BOT, FORK, REPOSITORY, TOKEN, serving


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
    """Runs the program's main, for which time passes only while it waits; whatever happens, the token is in no output."""
    monkeypatch.setattr(ACTION, "_now", lambda: github.now)
    monkeypatch.setattr(ACTION, "_sleep", github.pass_time)

    def run(about: int | None = None, **changes: str) -> tuple[int, list[str]]:
        path = tmp_path / "event.json"
        path.write_text(json.dumps({"workflow_run": {"id": about}} if about else {"schedule": "17 * * * *"}))
        given = {
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REF_NAME": "main",
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": TOKEN,
            "RERUN_WORKFLOWS": "train.yml",
            "RERUN_LABELS": "GPU-T4",
            "RERUN_RERUNS": "1",
            "RERUN_HOURS": "24",
            "RERUN_WAKE_LABELS": "",
            "RERUN_WAKE_MINUTES": "10",
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


def test_with_two_reruns_an_interrupted_rerun_is_rerun_once_more(github, call):
    """By what its own jobs say: those of the first attempt were interrupted all the same."""
    lost, failed, persons = (github.add(a_run(n, head_branch=f"b{n}"), a_job(n, "failure", LOST)) for n in (1, 2, 3))
    jobs = {
        lost: [a_job(11, "failure", LOST)],
        failed: [a_job(12, "failure", "Process completed with exit code 1.")],
        persons: [a_job(13, "failure", LOST)],
    }

    def interrupted():
        github.again = dict(jobs)
        for run in jobs:
            github.run(run).update(status="completed", conclusion="failure", updated_at=ago())
        github.run(persons).update(triggering_actor={"login": "ann"})

    call(RERUN_RERUNS="2")
    assert github.reruns == [lost, failed, persons]
    interrupted()
    assert call(RERUN_RERUNS="2")[1] == [
        f"run {lost}: reran the failed jobs: job 11: the runner was lost or shut down",
        f"run {failed}: no job was interrupted or without a runner",
    ]
    interrupted()
    call(RERUN_RERUNS="2")
    assert (github.reruns, github.run(lost)["run_attempt"]) == ([lost, failed, persons, lost], 3)


def test_a_newer_run_bars_the_second_rerun_too(github, call):
    lost = github.add(a_run(1, run_attempt=2, triggering_actor=BOT))
    github.again = {lost: [a_job(1, "failure", LOST)]}
    github.add(a_run(2, status="in_progress", conclusion=None))
    assert call(RERUN_RERUNS="2")[1] == [f"run {lost}: a newer run exists, which a rerun could cancel"]


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


# -- a runner set that does not hear of the rerun -----------------------------------------------------------------------


WAKE = {"RERUN_WAKE_LABELS": "GPU-T4-rerun"}
RERAN = "reran the failed jobs: job 1: the runner was lost or shut down"
ALREADY = "it was rerun already: attempt 2"
TAKEN = "no job of its rerun waits for a runner"
WOKE = [f"no runner took its job for gpu-t4-rerun: wake {number} of 2" for number in (1, 2)]
STILL = "its rerun still waits for a runner; the next sweep looks again"
NO_HELP = "no runner took its job for gpu-t4-rerun, and 2 wakes did not help: the runner set is full or broken"


@pytest.mark.parametrize(
    ("unheard", "steps", "minutes", "cancelled"),
    [
        (0, [RERAN, TAKEN], 4, []),
        (1, [RERAN, WOKE[0], TAKEN], 14, [501]),
        (2, [RERAN, *WOKE, STILL], 22, []),
        (9, [RERAN, *WOKE, STILL], 22, []),
    ],
)
def test_a_rerun_that_no_runner_takes_wakes_its_set(github, call, unheard, steps, minutes, cancelled):
    github.unheard = unheard
    lost = github.add(a_run(1), a_job(1, "failure", LOST), a_job(2, "success"))
    lines = [f"run {lost}: {step}" for step in steps]
    for number in cancelled:
        lines.append(f'run {number}: cancelled, because no rerun waits for it: wake ["gpu-t4-rerun"]')
    assert call(lost, **WAKE) == (0, lines)
    assert github.now - NOW == timedelta(minutes=minutes)
    assert github.dispatches == [{"ref": "main", "inputs": {"runs-on": '["gpu-t4-rerun"]'}}] * sum(step in WOKE for step in steps)
    assert github.cancelled == cancelled
    assert github.reruns == [lost], "a wake does not rerun"


@pytest.mark.parametrize(("unheard", "status", "steps"), [(2, 0, [TAKEN]), (9, 1, [NO_HELP])])
def test_the_next_sweep_goes_on_where_a_worker_stopped(github, call, unheard, status, steps):
    github.unheard = unheard
    lost = github.add(a_run(1), a_job(1, "failure", LOST))
    call(lost, **WAKE)
    github.pass_time(timedelta(minutes=60))
    done, lines = call(**WAKE)
    assert done == status
    assert lines[:1] == [f"{'::error::' * status}run {lost}: {step}" for step in steps]
    assert len(github.dispatches) == 2, "a set gets no third wake"


def test_a_sweep_wakes_at_once_what_a_crashed_worker_reran(github, call):
    lost = github.add(a_run(1, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT))
    persons = github.add(a_run(2, run_attempt=2, status="queued", conclusion=None))
    github.again = {lost: [a_job(1, "success"), a_waiting_job()], persons: [a_waiting_job(labels=["gpu-t4"])]}
    assert call(**WAKE)[1] == [
        f"run {lost}: {WOKE[0]}",
        f"run {lost}: {TAKEN}",
        'run 501: cancelled, because no rerun waits for it: wake ["gpu-t4-rerun"]',
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": ["ubuntu-24.04"]},
        {"labels": ["gpu-t4-rerun", "gpu-h100"]},
        {"labels": []},
        {"status": "waiting"},
        {"status": "in_progress", "runner_id": 5},
        {"runner_id": 5},
    ],
)
def test_only_a_queued_job_of_a_named_set_is_looked_at(github, call, changes):
    """The labels are those of a run whose workflow a fork may have written."""
    lost = github.add(a_run(1, run_attempt=2, status="in_progress", conclusion=None, triggering_actor=BOT))
    github.again = {lost: [a_waiting_job(**changes)]}
    assert call(**WAKE) == (0, [f"run {lost}: {TAKEN}"])
    assert github.dispatches == []


def test_while_github_lists_no_job_of_a_rerun_the_worker_looks_again(github, call):
    lost = github.add(a_run(1, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT))
    github.again = {lost: []}
    assert call(**WAKE)[1][-1] == f"run {lost}: {STILL}"


def test_reruns_that_wait_for_one_set_share_its_wake_and_every_set_has_its_own(github, call):
    runs = [
        github.add(a_run(number, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT)) for number in (1, 2, 3)
    ]
    github.again = {run: [a_waiting_job()] for run in runs[:2]}
    github.again[runs[2]] = [a_waiting_job(labels=["linux", "gpu"]), a_waiting_job()]
    call(RERUN_WAKE_LABELS="gpu-t4-rerun gpu linux")
    assert [body["inputs"]["runs-on"] for body in github.dispatches] == ['["gpu-t4-rerun"]', '["gpu", "linux"]']


def test_a_set_that_no_wake_helped_does_not_keep_another_one_from_its_wakes(github, call):
    lost = github.add(a_run(1, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT))
    github.again = {lost: [a_waiting_job(labels=["gpu"]), a_waiting_job(created_at=ago(minutes=1))]}
    github.wakes = [a_wake(500 + n, display_title='wake ["gpu"]', created_at=ago(minutes=30 - n)) for n in (1, 2)]
    github.unheard = 9
    assert call(RERUN_WAKE_LABELS="gpu-t4-rerun gpu")[1] == [f"run {lost}: {step}" for step in (ALREADY, *WOKE, STILL)]


def test_a_run_that_ends_while_the_worker_waits_is_rerun_too(github, call, monkeypatch):
    github.unheard = 1
    first = github.add(a_run(1), a_job(1, "failure", LOST))

    def pass_time(span):
        github.pass_time(span)
        if len(github.runs) == 1:
            github.add(a_run(2, head_branch="other", updated_at=ago(github.now)), a_job(1, "failure", LOST))

    monkeypatch.setattr(ACTION, "_sleep", pass_time)
    assert call(first, **WAKE)[1][:2] == [f"run {first}: {RERAN}", f"run {github.runs[1]['id']}: {RERAN}"]


def test_a_sweep_cancels_our_wakes_that_nothing_waits_for(github, call):
    github.wakes = [
        a_wake(500),
        a_wake(501, triggering_actor={"login": "ann"}),
        a_wake(502, status="in_progress"),
        a_wake(503, created_at=ago(days=3)),
    ]
    assert call(**WAKE) == (0, ['run 500: cancelled, because no rerun waits for it: wake ["gpu-t4-rerun"]'])
    assert github.cancelled == [500]
    github.wakes[0]["status"] = "queued"
    for answer, status in ((409, 0), (403, 1)):
        github.failing[f"POST /repos/{REPOSITORY}/actions/runs/500/cancel"] = (answer, b"{}")
        assert call(**WAKE)[0] == status, "409: it has ended meanwhile"


def test_a_dry_run_wakes_and_cancels_nothing(github, call):
    lost = github.add(a_run(1, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT))
    github.again = {lost: [a_waiting_job()]}
    github.wakes = [a_wake(500, display_title='wake ["gpu-a10"]')]
    assert call(RERUN_DRY_RUN="true", **WAKE) == (0, [f"run {lost}: would wake the runner set: {WOKE[0]}"])
    assert github.dispatches == github.cancelled == []


def test_without_wake_labels_nobody_looks(github, call):
    github.add(a_run(1), a_job(1, "failure", LOST))
    call()
    assert not [path for _, path, _ in github.requests if "wake" in path or "attempts/2" in path]


def test_a_repository_without_the_wake_workflow_has_its_rerun_and_an_error(github, call):
    lost = github.add(a_run(1), a_job(1, "failure", LOST))
    github.failing[f"GET /repos/{REPOSITORY}/actions/workflows/wake.yml/runs"] = (404, b"")
    status, lines = call(lost, **WAKE)
    assert status == 1
    assert lines[0].endswith("404 Not Found; wake-labels needs .github/workflows/wake.yml on the default branch")
    assert lines[1:] == [f"run {lost}: {RERAN}"]


def test_a_refused_wake_is_an_error_and_nothing_is_cancelled(github, call):
    lost = github.add(a_run(1, run_attempt=2, status="queued", conclusion=None, triggering_actor=BOT))
    github.again = {lost: [a_waiting_job()]}
    github.wakes = [a_wake(500, created_at=ago(minutes=50))]
    github.failing[f"POST /repos/{REPOSITORY}/actions/workflows/wake.yml/dispatches"] = (422, b"{}")
    assert call(**WAKE) == (1, [f"::error::run {lost}: POST /actions/workflows/wake.yml/dispatches: 422 Unprocessable Entity"])
    assert github.cancelled == []


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
    options = ACTION.Inputs([], SPOT, 1, timedelta(), frozenset(), timedelta(), False)
    with pytest.raises(ACTION.RefusedError, match=f"GET /actions/runs/{lost}: "):
        ACTION.judge(api, lost, options, ACTION.Wakes(api, frozenset(), timedelta(), "main"))
    assert len(github.requests) == asked
    assert github.reruns == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"RERUN_WORKFLOWS": "train"}, "workflows must name files such as \"train.yml\", separated by spaces; got ['train']"),
        ({"RERUN_WORKFLOWS": ""}, 'workflows must name files such as "train.yml", separated by spaces; got []'),
        ({"RERUN_LABELS": " "}, 'labels must name at least one runner set, such as "gpu-t4"; got none'),
        ({"RERUN_RERUNS": "3"}, "reruns must be 1, or 2 for classes with rerunFirstOn; got 3"),
        ({"RERUN_HOURS": "0"}, "hours must be a number above 0, at most 696 (GitHub reruns for 30 days); got 0"),
        ({"RERUN_HOURS": "a day"}, "hours must be a number above 0, at most 696 (GitHub reruns for 30 days); got a day"),
        (
            {"RERUN_WAKE_MINUTES": "61"},
            "wake-minutes must be a number above 0, at most 60 (the hourly sweep looks again); got 61",
        ),
        ({"RERUN_WAKE_LABELS": "a" * 201}, "wake-labels must have at most 200 characters; got 201"),
    ],
)
def test_a_wrong_input_is_one_line(call, changes, line):
    assert call(**changes) == (1, [f"::error::{line}"])
