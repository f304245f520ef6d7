"""What the rerun decides for one run: from what GitHub shows of the run and of its jobs."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from tests.rerun.world import (
    ACTION,
    CANCELED,
    ENDS,
    KILLED,
    LOST,
    RERUN,
    SHUTDOWN,
    SPOT,
    VETOES,
    Answer,
    Job,
    Queue,
    Run,
    State,
    Worker,
)

Cause = ACTION.Cause

FIRST = Run(1, True, False)


@pytest.mark.parametrize("pair", list(combinations_with_replacement(ENDS, 2)))
def test_a_run_is_rerun_if_a_job_of_it_was_killed_and_nobody_ended_it(pair):
    killed, _ = ACTION.judged(tuple(ENDS[end] for end in pair), SPOT)
    assert killed is (bool(KILLED & set(pair)) and not VETOES & set(pair))


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (FIRST, ""),
        (Run(2, True, False), "it was rerun already: attempt 2"),
        (Run(1, False, False), "it has not ended"),
        (Run(1, True, True), "a newer run exists, which a rerun could cancel"),
        (Run(1, True, False, "merge_group"), "the merge queue has removed it already"),
    ],
)
def test_what_speaks_against_a_rerun_is_named(run, reason):
    assert ACTION.barred(run) == reason
    for state, onward in ((State.RUN, State.JOBS), (State.AGAIN, State.CALL)):
        assert ACTION.step(Worker(state), run, SPOT).state is (State.END if reason else onward)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (Run(2, True, False, by_us=True), ""),
        (Run(2, True, False), "it was rerun already: attempt 2"),
        (Run(2, True, True, by_us=True), "a newer run exists, which a rerun could cancel"),
        (Run(3, True, False, by_us=True), "it was rerun already: attempt 3"),
    ],
)
def test_of_two_reruns_the_second_follows_only_our_own_first(run, reason):
    assert ACTION.barred(run, 2) == reason
    after = ACTION.step(Worker(), run, SPOT, 2)
    assert (after.state, after.attempt) == ((State.END, 1) if reason else (State.JOBS, run.attempt))


def test_the_attempt_of_the_call_is_the_one_that_was_judged():
    judged = Worker(State.AGAIN, attempt=1)
    assert ACTION.step(judged, Run(1, True, False), SPOT, 2).state is State.CALL
    again = ACTION.step(judged, Run(2, True, False, by_us=True), SPOT, 2)
    assert (again.state, again.reason) == (State.END, "attempt 2 was not judged")


@pytest.mark.parametrize(
    ("labels", "annotations", "cause"),
    [
        (("gpu-t4",), (LOST,), Cause.INTERRUPTED),
        (("gpu-t4",), ("The self-hosted runner lost communication with the server. Verify …",), Cause.INTERRUPTED),
        (("self-hosted", "GPU-T4"), (CANCELED, SHUTDOWN), Cause.INTERRUPTED),
        (
            ("gpu-t4",),
            ("The job was not acquired by Runner of type self-hosted even after multiple attempts",),
            Cause.NO_CAPACITY,
        ),
        (("gpu-a10",), (LOST,), Cause.FAILED),
        (("gpu-t4",), (SHUTDOWN, "The run was canceled by @ann."), Cause.CANCELLED),
        (("gpu-t4",), (CANCELED,), Cause.FAILED),
        (("gpu-t4",), (), Cause.FAILED),
        (("gpu-t4",), ("test_x: The runner has received a shutdown signal",), Cause.FAILED),
        (("gpu-t4",), ("The job has exceeded the maximum execution time of 60m0s",), Cause.FAILED),
    ],
)
def test_githubs_own_annotations_say_why_a_job_ended(labels, annotations, cause):
    assert ACTION.cause(Job("train", "failure", labels, annotations), SPOT) is cause


def test_the_reason_names_the_job_and_its_cause():
    jobs = (Job("train (a)", "failure", ("gpu-t4",), (LOST,)), Job("train (b)", "cancelled", ("gpu-t4",), (CANCELED,)))
    assert ACTION.judged(jobs, SPOT) == (True, "train (a): the runner was lost or shut down")


@pytest.mark.parametrize(
    ("state", "answer", "after"),
    [
        (State.CALL, Answer.ACCEPTED, State.LOOK),
        (State.CALL, Answer.RUNNING, State.END),
        (State.CALL, Answer.UNCLEAR, State.END),
        (State.WAKE, Answer.ACCEPTED, State.LOOK),
        (State.WAKE, Answer.UNCLEAR, State.LOOK),
    ],
)
def test_after_a_call_that_github_accepted_the_worker_looks(state, answer, after):
    assert ACTION.step(Worker(state), answer, SPOT).state is after


@pytest.mark.parametrize(
    ("run", "after"),
    [
        (Run(2, False, False, by_us=True), State.LOOK),
        (Run(2, False, False), State.END),
        (Run(2, True, False, by_us=True), State.END),
        (Run(3, False, False, by_us=True), State.END),
        (Run(1, False, False, by_us=True), State.END),
    ],
)
def test_a_sweep_looks_after_our_rerun_while_it_runs(run, after):
    assert ACTION.step(Worker(), run, SPOT).state is after
    assert ACTION.step(Worker(State.AGAIN), run, SPOT).state is State.END, "right before the call no rerun may run"


@pytest.mark.parametrize(
    ("queue", "worker"),
    [
        (Queue(), Worker(State.END, "no job of its rerun waits for a runner")),
        (Queue(True), Worker(State.LOOK, "before")),
        (Queue(True, RERUN, False, 1), Worker(State.LOOK, "before")),
        (Queue(True, RERUN, True), Worker(State.WAKE, "no runner took its job for gpu-t4-rerun: wake 1 of 2", RERUN)),
        (Queue(True, RERUN, True, 1), Worker(State.WAKE, "no runner took its job for gpu-t4-rerun: wake 2 of 2", RERUN)),
        (
            Queue(True, RERUN, True, 2),
            Worker(
                State.END,
                "no runner took its job for gpu-t4-rerun, and 2 wakes did not help: the runner set is full or broken",
                failed=True,
            ),
        ),
    ],
)
def test_a_job_that_waits_too_long_gets_a_wake_and_after_two_a_person_must_look(queue, worker):
    assert ACTION.step(Worker(State.LOOK, "before"), queue, SPOT) == worker
