"""The outcome and the progress lines of a Job do not depend on the order of the watch messages."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.facts.scheduling import QUEUE_LABEL
from gpu_ci.submit import RunOptions
from gpu_ci.submit.errors import ApiError
from gpu_ci.submit.objects import JOBS, PODS, WORKLOADS, Kind
from gpu_ci.submit.result import STATUS, Outcome
from gpu_ci.submit.status import JobStatus, Note
from gpu_ci.submit.watch import Update, WatchStatus
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

Message = Update | WatchStatus | tuple[str, tuple[Any, ...]]
"""A message of a watch, or the events of the object with a uid."""

JOB = made(job(), "uid-job")
PATIENT = RunOptions(stuck_after=10**9)


def changed(kind: Kind, thing: Any) -> Update:
    return Update(kind, "changed", (thing,))


def deleted(kind: Kind, thing: Any) -> Update:
    return Update(kind, "deleted", (thing,))


def listed(kind: Kind, things: tuple[Any, ...]) -> Update:
    return Update(kind, "listed", things)


def learn(known: JobStatus, message: Message, now: float = 0) -> list[Note]:
    """Take any message."""
    return known.learn_events(*message) if isinstance(message, tuple) else known.learn(message, now)


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


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Message], str]:
    """Messages of Job, pods, Workload and events: each kind in its own order, mixed in any way; and how the Job ends."""
    end = draw(st.sampled_from(sorted(FINALS)))
    jobs: list[Message] = [changed(JOBS, JOB | {"status": {"active": 1}}) for _ in range(draw(st.integers(0, 2)))]
    last = JOB | {"status": {"conditions": [true("FailureTarget"), FINALS[end][0]]}}
    # After the end: the Job is listed again, or deleted when its ttlSecondsAfterFinished is over.
    after: list[list[Message]] = [[], [listed(JOBS, (last,))], [deleted(JOBS, last)], [listed(JOBS, ())]]
    jobs += [changed(JOBS, last), *draw(st.sampled_from(after))]
    woven = [jobs]
    for name in draw(st.sampled_from(["", "a", "ab"])):
        pods = [pod(JOB, name, status) for status in draw(st.lists(states, max_size=4))]
        changes: list[Message] = [changed(PODS, thing) for thing in pods]
        gone = draw(st.booleans())
        if pods and gone:
            changes.append(deleted(PODS, pods[-1]))
        woven.append(changes)
        woven.append([(f"uid-{name}", (event(f"uid-{name}", "Pulling", "Pulling image"),))] * draw(st.integers(0, 2)))
    woven.append([changed(WORKLOADS, workload("uid-job", true("Admitted")))] * draw(st.integers(0, 1)))
    order: list[Message] = []
    while any(woven):
        stream = draw(st.sampled_from([each for each in woven if each]))
        order.append(stream.pop(0))
        if draw(st.booleans()):
            # A watch that is opened again can repeat the last message.
            order.append(order[-1])
    return order, end


@given(streams())
def test_the_outcome_is_what_the_job_itself_says_in_whatever_order_news_comes(found):
    order, end = found
    known = JobStatus(JOB, PATIENT)
    for index, message in enumerate(order):
        learn(known, message, float(index))
        # Judge after every message, as the follower does.
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


@given(streams())
def test_no_line_is_told_twice_in_a_row_and_each_is_one_line(found):
    order, _ = found
    known = JobStatus(JOB, PATIENT)
    notes = [note for index, message in enumerate(order) for note in learn(known, message, float(index))]
    for who in {note.who for note in notes}:
        said = [note.text for note in notes if note.who == who]
        assert all(first != second for first, second in itertools.pairwise(said))
    assert all(note.text and "\n" not in note.text and note.text.isprintable() for note in notes)


@given(streams())
def test_attempts_are_the_runs_that_pods_tell(found):
    order, _ = found
    known = JobStatus(JOB, PATIENT)
    for message in order:
        learn(known, message)
    pods = [message.objects[0] for message in order if isinstance(message, Update) and message.kind == PODS]
    last = {thing["metadata"]["name"]: thing for thing in pods}
    wanted = 0
    for thing in last.values():
        for status in thing["status"].get("containerStatuses", []):
            wanted += status["restartCount"] + (0 if "waiting" in status["state"] else 1)
    assert known.attempts == wanted


def test_a_pod_of_several_containers_is_one_attempt_and_restarts_are_more():
    known = JobStatus(JOB, PATIENT)
    status = running() | {"containerStatuses": [*running(2)["containerStatuses"], *running()["containerStatuses"]]}
    learn(known, changed(PODS, pod(JOB, "a", status)))
    assert known.attempts == 3


def test_a_cluster_without_kueue_is_told_as_soon_as_it_is_known():
    """It must not wait for another message: a suspended Job does not change."""
    queued = JOB | {"metadata": JOB["metadata"] | {"labels": {QUEUE_LABEL: "team-a"}}, "spec": JOB["spec"] | {"suspend": True}}
    known = JobStatus(queued, PATIENT)
    known.learn(changed(JOBS, queued), 0)
    (note,) = known.learn(
        WatchStatus(WORKLOADS, ApiError("list workloads", 404, "NotFound", "no such resource"), permanent=True), 0
    )
    assert note.text == "suspended for queue team-a, and the cluster has no Kueue to start it"


def test_words_of_the_cluster_cannot_move_the_cursor():
    known = JobStatus(JOB, PATIENT)
    notes = known.learn(changed(PODS, pod(JOB, "a", unscheduled("no\x1b[2Jnode\r\nat all"), node="")), 0)
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
    notes = known.learn(changed(PODS, pod(JOB, "a", status, **spec)), 0)
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
    notes = known.learn(changed(PODS, pod(JOB, "a", ended(code, reason))), 0)
    assert [note.text for note in notes] == [f"{words}; attempt 1 of 4, the Job controller creates another pod"]
    assert known.exit_code == code


def test_events_are_looked_at_while_something_waits_and_no_longer():
    known = JobStatus(JOB, PATIENT)
    assert known.waiting() == ["uid-job"], "the Job's own, while it has no pod"
    known.learn(changed(PODS, pod(JOB, "a", waiting("ContainerCreating"))), 0)
    assert known.waiting() == ["uid-a"]
    known.learn(changed(PODS, pod(JOB, "a", running())), 0)
    assert known.waiting() == []
    known.learn(changed(PODS, pod(JOB, "b", {})), 0)
    known.learn(changed(JOBS, JOB | {"status": {"conditions": [true("Complete")]}}), 0)
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
    for message in (
        changed(JOBS, JOB | {"status": of_job}),
        changed(PODS, pod(JOB, "a", of_pod)),
        changed(WORKLOADS, {"metadata": {"name": "w"}, "status": of_job}),
        ("uid-a", ({"type": "Warning", "reason": of_pod, "message": of_job},)),
        listed(PODS, ({"metadata": of_pod}, {})),
    ):
        for note in learn(known, message):
            assert note.text
            assert note.text.isprintable()
    known.judge(1, 0)
    for _, state in known.logs():
        assert state.restarts >= 0
    assert set(known.waiting()) <= {"uid-job", "uid-a", ""}
