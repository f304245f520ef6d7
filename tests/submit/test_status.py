"""The outcome and the progress lines of a Job do not depend on when somebody reads it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.facts.scheduling import QUEUE_LABEL
from gpu_ci.submit import RunOptions
from gpu_ci.submit.errors import ApiError
from gpu_ci.submit.objects import WORKLOADS
from gpu_ci.submit.runs import STATUS, Outcome
from gpu_ci.submit.status import JobStatus, Note, Seen
from tests.submit.objects import (
    disrupted,
    ended,
    event,
    job,
    pod,
    running,
    terminated,
    true,
    unscheduled,
    waiting,
    workload,
)
from tests.submit.server import made

JOB = made(job(), "uid-job")
PATIENT = RunOptions(stuck_after=10**9)


def seen(*pods: Any, of: Any = JOB, workload: Any = None) -> Seen:
    return Seen(of, pods, workload)


FINALS = {
    "Complete": (true("Complete", "CompletionsReached"), Outcome.COMPLETE),
    "DeadlineExceeded": (true("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"), Outcome.DEADLINE),
    "BackoffLimitExceeded": (
        true("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        Outcome.FAILED,
    ),
    "PodFailurePolicy": (true("Failed", "PodFailurePolicy", "Container worker for pod failed with exit code 3"), Outcome.FAILED),
}

states = st.sampled_from(
    [
        unscheduled("0/3 nodes are available"),
        waiting("ContainerCreating"),
        waiting("ImagePullBackOff", "no such image"),
        running(),
        running(2, terminated(1, run=1)),
        ended(0),
        ended(137, "OOMKilled"),
        disrupted("EvictionByEvictionAPI", "evicted"),
        {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no device"},
        {},
    ]
)


Looks = list[tuple[Seen, list[Any]]]
"""What each reading of a Job shows, and the events of its pods."""


@st.composite
def looks(draw: st.DrawFn) -> tuple[Looks, str]:
    """Readings of a Job to its end, at any moments of its life; and how it ends."""
    end = draw(st.sampled_from(sorted(FINALS)))
    names = draw(st.sampled_from(["", "a", "ab"]))
    order: Looks = []
    existing: dict[str, Any] = {}
    for _ in range(draw(st.integers(0, 6))):
        for name in names:
            if draw(st.booleans()):
                existing[name] = pod(JOB, name, draw(states))
            elif name in existing and draw(st.booleans()):
                del existing[name]
        at_work = JOB | {"status": {"active": 1}}
        admitted = workload("uid-job", true("Admitted")) if draw(st.booleans()) else None
        events = [event(f"uid-{name}", "Pulling", "Pulling image") for name in names if draw(st.booleans())]
        order += [(Seen(at_work, tuple(existing.values()), admitted), events)] * draw(st.integers(1, 2))
    last = JOB | {"status": {"conditions": [true("FailureTarget"), FINALS[end][0]]}}
    order += [(Seen(last, tuple(existing.values())), [])] * draw(st.integers(1, 2))
    # After the end the Job is deleted when its ttlSecondsAfterFinished is over.
    return [*order, *[(Seen(None), [])] * draw(st.integers(0, 1))], end


def learn(known: JobStatus, look: Seen, events: list[Any], now: float = 0) -> list[Note]:
    notes = known.learn(look, now)
    for one in events:
        notes += known.learn_events(one["involvedObject"]["uid"], [one])
    return notes


@given(looks())
def test_the_outcome_is_what_the_job_itself_says_whatever_was_seen_before(found):
    order, end = found
    known = JobStatus(JOB, PATIENT)
    for index, (look, events) in enumerate(order):
        learn(known, look, events, float(index))
        # Judge after every look, as the follower does.
        judged = known.judge(float(index), 0)
        if known.ended is False:
            assert judged is None or judged[0] is Outcome.STUCK, "nothing else ends it before its condition"
    outcome, reason = known.judge(float(len(order)), 0) or (None, "")
    wanted = FINALS[end][1]
    assert outcome is wanted or (wanted is Outcome.FAILED and outcome is Outcome.EVICTED)
    assert outcome is not None
    assert STATUS[outcome] == (0 if end == "Complete" else 1)
    if end != "Complete":
        assert reason.startswith(f"{end}: ")


@given(looks())
def test_no_line_is_told_twice_in_a_row_and_each_is_one_line(found):
    order, _ = found
    known = JobStatus(JOB, PATIENT)
    notes = [note for index, (look, events) in enumerate(order) for note in learn(known, look, events, float(index))]
    for who in {note.who for note in notes}:
        said = [note.text for note in notes if note.who == who]
        assert all(first != second for first, second in itertools.pairwise(said))
    assert all(note.text and "\n" not in note.text and note.text.isprintable() for note in notes)


@given(looks())
def test_attempts_are_the_runs_that_pods_tell(found):
    order, _ = found
    known = JobStatus(JOB, PATIENT)
    for look, events in order:
        learn(known, look, events)
    last = {thing["metadata"]["name"]: thing for look, _ in order for thing in look.pods}
    wanted = 0
    for thing in last.values():
        for status in thing["status"].get("containerStatuses", []):
            wanted += status["restartCount"] + (0 if "waiting" in status["state"] else 1)
    assert known.attempts == wanted


def test_a_pod_of_several_containers_is_one_attempt_and_restarts_are_more():
    known = JobStatus(JOB, PATIENT)
    status = running() | {"containerStatuses": [*running(2)["containerStatuses"], *running()["containerStatuses"]]}
    known.learn(seen(pod(JOB, "a", status)), 0)
    assert known.attempts == 3


def test_a_cluster_without_kueue_is_told_as_soon_as_it_is_known():
    queued = JOB | {"metadata": JOB["metadata"] | {"labels": {QUEUE_LABEL: "team-a"}}, "spec": JOB["spec"] | {"suspend": True}}
    known = JobStatus(queued, PATIENT, {WORKLOADS: ApiError("list workloads", 404, "NotFound", "no such resource")})
    (note,) = known.learn(seen(of=queued), 0)
    assert note.text == "suspended for queue team-a, and the cluster has no Kueue to start it"


def test_words_of_the_cluster_cannot_move_the_cursor():
    known = JobStatus(JOB, PATIENT)
    notes = known.learn(seen(pod(JOB, "a", unscheduled("no\x1b[2Jnode\r\nat all"), node="")), 0)
    assert [note.text for note in notes] == ["pending: no node for it yet: no?[2Jnode at all"]


@pytest.mark.parametrize(
    ("status", "spec", "words"),
    [
        ({}, {"node": ""}, "pending: waits for the scheduler"),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            {"node": ""},
            "pending: a scheduling gate holds it back",
        ),
        (unscheduled("0/3 nodes"), {"node": ""}, "pending: no node for it yet: 0/3 nodes"),
        ({"phase": "Pending"}, {}, "starting on node ip-10-0-1-2"),
        (waiting("ContainerCreating"), {}, "starting on node ip-10-0-1-2"),
        (waiting("ErrImagePull", "not found"), {}, "cannot start: ErrImagePull: not found"),
        (running(), {}, "running on node ip-10-0-1-2"),
        (ended(0), {}, "done"),
    ],
)
def test_what_a_pod_does_is_told(status, spec, words):
    known = JobStatus(JOB, PATIENT)
    notes = known.learn(seen(pod(JOB, "a", status, **spec)), 0)
    assert [note.text for note in notes] == [words]


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (1, "", "exit code 1"),
        (137, "", "exit code 137 (SIGKILL)"),
        (139, "", "exit code 139 (SIGSEGV)"),
        (255, "", "exit code 255"),
        (128, "StartError", "exit code 128: StartError"),
    ],
)
def test_an_exit_code_is_told_with_its_signal(code, reason, words):
    known = JobStatus(JOB, PATIENT)
    notes = known.learn(seen(pod(JOB, "a", ended(code, reason))), 0)
    assert [note.text for note in notes] == [f"{words}; attempt 1 of 4, the Job controller creates another pod"]
    assert known.exit_code == code


def test_events_are_looked_at_while_something_waits_and_no_longer():
    known = JobStatus(JOB, PATIENT)
    assert known.waiting() == ["uid-job"], "the Job's own, while it has no pod"
    known.learn(seen(pod(JOB, "a", waiting("ContainerCreating"))), 0)
    assert known.waiting() == ["uid-a"]
    known.learn(seen(pod(JOB, "a", running())), 0)
    assert known.waiting() == []
    known.learn(seen(pod(JOB, "b", {})), 0)
    known.learn(seen(of=JOB | {"status": {"conditions": [true("Complete")]}}), 0)
    assert known.waiting() == []
    assert JobStatus(JOB | {"spec": {"suspend": True}}, PATIENT).waiting() == []


def test_warnings_that_the_status_tells_are_not_told_again():
    known = JobStatus(JOB, PATIENT)
    told = (
        event("uid-job", "BackoffLimitExceeded", "x", "Warning"),
        event("uid-job", "FailedScheduling", "x", "Warning"),
        event("uid-job", "SuccessfulCreate", "x"),
        event("uid-job", "FailedMount", 'MountVolume.SetUp failed for volume "workspace"', "Warning"),
    )
    notes = known.learn_events("uid-job", told)
    assert [note.text for note in notes] == ['FailedMount: MountVolume.SetUp failed for volume "workspace"']


def any_status() -> st.SearchStrategy[Any]:
    """Any JSON in place of a status."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=3)
        | st.sampled_from(["True", "Failed", "Pending", "uid-job"])
    )
    keys = st.sampled_from(
        [
            "conditions",
            "containerStatuses",
            "state",
            "waiting",
            "terminated",
            "running",
            "type",
            "status",
            "reason",
            "phase",
            "name",
        ]
    )
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
    )


@given(any_status(), any_status())
def test_whatever_the_api_says_nothing_breaks(of_job, of_pod):
    known = JobStatus(JOB, RunOptions())
    of = JOB | {"status": of_job}
    about: tuple[Any, ...] = ({"type": "Warning", "reason": of_pod, "message": of_job},)
    workload = {"metadata": {"name": "w"}, "status": of_job}
    notes = known.learn(Seen(of, (pod(JOB, "a", of_pod),), workload), 0) + known.learn_events("uid-a", about)
    notes += known.learn(Seen(of, ({"metadata": of_pod}, {})), 0)
    for note in notes:
        assert note.text
        assert note.text.isprintable()
    known.judge(1, 0)
    for _, state in known.logs():
        assert state.restarts >= 0
    assert set(known.waiting()) <= {"uid-job", "uid-a", ""}
