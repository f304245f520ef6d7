"""Our machine with one mistake each, and the property by which the checker finds it. Each mistake was made by somebody before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.rerun.world import ACTION, ENDS, KILLED, SPOT, Answer, Queue, Rules, Run, State, Worker, World


def _sees(change: Callable[[Any], Any]) -> Rules:
    """A machine that sees each reply changed."""
    return Rules(step=lambda world, worker, reply, most: ACTION.step(worker, change(reply), SPOT, most))


def _run(**changes: Any) -> Rules:
    """A machine that believes this of every run."""
    return _sees(lambda reply: replace(reply, **changes) if isinstance(reply, Run) else reply)


def _job(change: Callable[[Any], Any]) -> Rules:
    """A machine that believes this of every job."""
    return _sees(lambda reply: tuple(map(change, reply)) if isinstance(reply, tuple) else reply)


def _once_only_looked(world: World, worker: Any, reply: Any, most: int) -> Any:
    after = ACTION.step(worker, reply, SPOT, most)
    return Worker(State.CALL, after.reason) if after.state is State.AGAIN else after


def _by_the_payload(world: World, attempt: int) -> Any:
    killed = attempt == 1 and KILLED & set(world.jobs[0])
    return Worker(State.CALL) if killed else Worker(State.RUN if attempt == 0 else State.END)


def _calls_again(world: World, worker: Any, reply: Any, most: int) -> Any:
    return worker if reply is Answer.UNCLEAR else ACTION.step(worker, reply, SPOT, most)


def _leaves_what_is_marked(world: World, worker: Any, reply: Any, most: int) -> Any:
    return Worker(State.END) if world.marked and worker.state is State.RUN else ACTION.step(worker, reply, SPOT, most)


def _leaves_what_failed_too(world: World, worker: Any, reply: Any, most: int) -> Any:
    failed = isinstance(reply, tuple) and ENDS["failed"] in reply
    return Worker(State.END) if failed else ACTION.step(worker, reply, SPOT, most)


def _never_looks(world: World, worker: Any, reply: Any, most: int) -> Any:
    after = ACTION.step(worker, reply, SPOT, most)
    return Worker(State.END) if after.state is State.LOOK else after


def _leaves_the_look_to_the_first(world: World, worker: Any, reply: Any, most: int) -> Any:
    return Worker(State.END) if isinstance(reply, Run) and reply.attempt > 1 else ACTION.step(worker, reply, SPOT, most)


def _looks_at_the_first_rerun(world: World, worker: Any, reply: Any, most: int) -> Any:
    after = ACTION.step(worker, reply, SPOT, most)
    return replace(after, attempt=2) if after.state is State.LOOK else after


def _judges_the_one_before(world: World, worker: Any, reply: Any, most: int) -> Any:
    again = worker.state is State.AGAIN
    return ACTION.step(replace(worker, attempt=reply.attempt) if again else worker, reply, SPOT, most)


def _first_attempts_only(world: World, worker: Any, reply: Any, most: int) -> Any:
    return ACTION.step(worker, reply, SPOT, 1)


def _queue(**changes: Any) -> Rules:
    """A machine that believes this of every queue in which a job waits."""
    return _sees(lambda reply: replace(reply, **changes) if isinstance(reply, Queue) and reply.waits else reply)


def _reclaimed(job: Any) -> Any:
    return ENDS["reclaimed"] if "The operation was canceled." in job.annotations else job


MUTANTS: dict[str, tuple[Rules, str]] = {
    # One worker, as below: all that it does can happen with two.
    "counts no attempts": (replace(_run(attempt=1), workers=1), "never more"),
    "reruns its last rerun when that is interrupted too": (
        replace(
            _sees(lambda reply: replace(reply, attempt=2) if isinstance(reply, Run) and reply.attempt == 3 else reply), workers=1
        ),
        "bounded",
    ),
    "does not look for a newer run": (_run(newer=False), "never superseded"),
    "does not look for a newer run than its rerun": (
        _sees(lambda reply: replace(reply, newer=False) if isinstance(reply, Run) and reply.attempt > 1 else reply),
        "never superseded",
    ),
    "takes every rerun for its own": (_run(by_us=True), "never a person's"),
    "reruns one attempt for what it judged of the one before": (Rules(step=_judges_the_one_before), "never needless"),
    "reruns only first attempts": (Rules(step=_first_attempts_only), "never lost"),
    "trusts the event's payload": (Rules(start=_by_the_payload), "never a person's"),
    "does not look again before the call": (Rules(step=_once_only_looked), "never a person's"),
    "calls again after a lost answer": (Rules(step=_calls_again), "never more"),
    "marks the run before the call": (Rules(step=_leaves_what_is_marked), "never lost"),
    "has no sweep": (Rules(sweep=False), "never lost"),
    "leaves a run with a real failure in it": (Rules(step=_leaves_what_failed_too), "never lost"),
    "takes every cancellation for a reclaim": (_job(_reclaimed), "never cancelled"),
    "reruns every failure": (
        _job(lambda job: ENDS["lost"] if job.conclusion == "failure" else job),
        "never needless",
    ),
    "reads conclusions and no annotations": (_job(lambda job: replace(job, annotations=())), "never lost"),
    "does not look whether a runner took the rerun": (Rules(step=_never_looks), "never lost"),
    "looks only in the worker that asked for the rerun": (Rules(step=_leaves_the_look_to_the_first), "never lost"),
    "checks its first rerun only": (Rules(step=_looks_at_the_first_rerun), "never lost"),
    "wakes only once": (
        _sees(lambda reply: replace(reply, wakes=9) if isinstance(reply, Queue) and reply.wakes else reply),
        "never lost",
    ),
    # One worker: the search is shorter, and a second one may wake the set once more anyway.
    "never stops to wake": (replace(_queue(wakes=0), workers=1), "bounded"),
}
"""By what each does wrong: the machine, and the property that the checker must find broken."""

ALONE = Rules(prompt=False, workers=1)
"""No assumption about time, and one worker at a time, as the workflow's concurrency group has it."""
EVERYBODY = Rules(prompt=False)
"""No assumption about time, and two workers."""
