"""A small GitHub with one workflow run, as docs/rerun.md describes it: every step that it, people and our workers can take.

The workers run `step` of the action itself. All else here is the model. One call of `moves` gives every next world with a name
for the step, so that a search sees each order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from tests.workflows.load import program

ACTION: Any = program("rerun-once", "rerun_once")
State, Worker, Run, Job, Answer = ACTION.State, ACTION.Worker, ACTION.Run, ACTION.Job, ACTION.Answer

SPOT = frozenset({"gpu-t4"})
CANCELED = "The operation was canceled."
SHUTDOWN = "The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually …"
LOST = "The self-hosted runner: gpu-t4-x lost communication with the server. Verify the machine is running and has a healthy …"

ENDS = {
    "passed": Job("a", "success", ("gpu-t4",)),
    "lost": Job("a", "failure", ("gpu-t4",), (LOST,)),
    "reclaimed": Job("a", "cancelled", ("GPU-T4",), (CANCELED, SHUTDOWN)),
    "queued a day": Job(
        "a", "cancelled", ("gpu-t4",), ("The job has exceeded the maximum execution time while awaiting a runner for 24h0m0s",)
    ),
    "failed": Job("a", "failure", ("gpu-t4",), ("Process completed with exit code 1.",)),
    "timed out": Job("a", "cancelled", ("gpu-t4",), ("The job has exceeded the maximum execution time of 60m0s", CANCELED)),
    "sibling": Job("a", "cancelled", ("gpu-t4",), (CANCELED,)),
    "cancelled": Job("a", "cancelled", ("gpu-t4",), ("The run was canceled by @ann.", CANCELED)),
    "replaced": Job(
        "a", "cancelled", ("gpu-t4",), ("Canceling since a higher priority waiting request for 'ci' exists", CANCELED)
    ),
    "lost elsewhere": Job("a", "failure", ("ubuntu-24.04",), ("The hosted runner lost communication with the server.",)),
}
"""How a job of the first attempt can end, with what GitHub then shows of it. The names are the truth that the checker trusts."""

KILLED = frozenset({"lost", "reclaimed", "queued a day"})
VETOES = frozenset({"cancelled", "replaced"})

MATRICES = (
    ("lost", "passed"),
    ("reclaimed", "sibling"),
    ("queued a day", "passed"),
    ("lost", "failed"),
    ("failed", "sibling"),
    ("passed", "passed"),
    ("reclaimed", "cancelled"),
    ("reclaimed", "replaced"),
    ("lost elsewhere", "passed"),
)
"""Ends of the two jobs of the matrix that the search takes. `test_decision.py` has every pair."""


class At(NamedTuple):
    """A worker of our own: its state, the attempt that there was when it came to the call, and its requests so far."""

    worker: Any
    seen: int = 0
    asked: int = 0


class World(NamedTuple):
    """Everything that one search state knows."""

    attempt: int = 1
    running: bool = True
    jobs: tuple[str, ...] = ()
    """Ends of the first attempt's jobs; empty while it runs."""
    newer: bool = False
    events: tuple[int, ...] = ()
    """Undelivered events, by the attempt that they are about."""
    workers: tuple[At, ...] = ()
    ours: int = 0
    """Reruns that GitHub accepted from us."""
    marked: bool = False
    """Whether a worker has written that it will rerun: only a mutant reads it."""
    reruns: int = 0
    """Reruns by a person."""
    crashes: int = 0
    copies: int = 0
    """Events that were delivered and stay in the channel."""


@cache
def _step(worker: Any, reply: Any) -> Any:
    return ACTION.step(worker, reply, SPOT)


@dataclass(frozen=True)
class Rules:
    """What is checked: our machine, and what the model assumes. The defaults are what the action does."""

    step: Callable[[World, Any, Any], Any] = lambda world, worker, reply: _step(worker, reply)
    start: Callable[[World, int], Any] = lambda world, attempt: Worker()
    """The state in which a worker starts, for an event about this attempt, 0 for a sweep."""
    sweep: bool = True
    prompt: bool = True
    """Between the last look and the call, a moment apart, no whole attempt runs and no newer run appears."""
    workers: int = 2
    """How many workers run at a time. The workflow's concurrency group allows one; the proof does not depend on it."""


MOST = {"reruns": 2, "crashes": 2, "copies": 1}
"""How often people rerun, workers crash and events come again in one search."""


def owed(world: World) -> bool:
    """Whether a killed job waits for our rerun. It knows the truth, and nothing of annotations."""
    return (
        world.attempt == 1
        and not world.running
        and not world.newer
        and bool(KILLED & set(world.jobs))
        and not VETOES & set(world.jobs)
    )


def moves(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Every next step of anybody."""
    calling = [at for at in world.workers if at.worker.state is State.CALL] if rules.prompt else []
    if world.running and not any(at.seen < world.attempt for at in calling):
        # Later attempts end as the first did, so an interrupted rerun is interrupted again.
        for jobs in MATRICES if world.attempt == 1 else (world.jobs,):
            ended = world._replace(running=False, jobs=jobs, newer=world.newer or "replaced" in jobs)
            yield f"attempt {world.attempt} ends ({', '.join(jobs)})", _event(ended)
    if not world.running and world.reruns < MOST["reruns"]:
        yield "a person reruns", world._replace(attempt=world.attempt + 1, running=True, reruns=world.reruns + 1)
    if not world.newer and not calling:
        yield "a push starts a newer run", world._replace(newer=True)
    yield from _channel(world, rules)
    if rules.sweep and len(world.workers) < rules.workers:
        yield "a sweep starts", _started(world, rules, 0)
    for at in dict.fromkeys(world.workers):
        yield from _worker(world, rules, at)


def _event(world: World) -> World:
    return world._replace(events=tuple(sorted((*world.events, world.attempt))))


def _channel(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """An event is delivered at any time and in any order, once or twice, or it is lost."""
    for attempt in sorted(set(world.events)):
        left = list(world.events)
        left.remove(attempt)
        without = world._replace(events=tuple(left))
        yield f"the event of attempt {attempt} is lost", without
        if len(world.workers) < rules.workers:
            yield f"the event of attempt {attempt} starts a worker", _started(without, rules, attempt)
            if world.copies < MOST["copies"]:
                yield (
                    f"the event of attempt {attempt} starts a worker and comes again",
                    _started(world._replace(copies=world.copies + 1), rules, attempt),
                )


def _started(world: World, rules: Rules, attempt: int) -> World:
    return _with(world, None, At(rules.start(world, attempt)))


def _worker(world: World, rules: Rules, at: At) -> Iterator[tuple[str, World]]:
    """A worker asks and gets the answer, or it crashes. Between two requests anybody else may act."""
    state = at.worker.state
    if world.crashes < MOST["crashes"]:
        yield f"a worker crashes before it asks: {state.value}", _with(world, at, None)._replace(crashes=world.crashes + 1)
    if state is not State.CALL:
        reply = Run(world.attempt, not world.running, world.newer)
        if state is State.JOBS:
            reply = tuple(ENDS[end] for end in world.jobs)
        yield f"a worker asks: {state.value}", _advanced(world, rules, at, reply)
    elif world.running:
        yield "a worker asks: rerun; GitHub refuses: already running", _advanced(world, rules, at, Answer.RUNNING)
    else:
        done = world._replace(attempt=world.attempt + 1, running=True, ours=world.ours + 1)
        yield "a worker asks: rerun; GitHub starts it", _advanced(done, rules, at, Answer.ACCEPTED)
        if world.crashes < MOST["crashes"]:
            crashes = world.crashes + 1
            yield (
                "a worker asks: rerun; GitHub starts it, its answer is lost",
                _advanced(done._replace(crashes=crashes), rules, at, Answer.UNCLEAR),
            )
            yield (
                "a worker asks: rerun; GitHub never gets it",
                _advanced(world._replace(crashes=crashes), rules, at, Answer.UNCLEAR),
            )


def _advanced(world: World, rules: Rules, at: At, reply: Any) -> World:
    worker = rules.step(world, at.worker, reply)
    if worker.state is State.END:
        return _with(world, at, None)
    if worker.state is State.CALL:
        world = world._replace(marked=True)
    return _with(world, at, At(worker, world.attempt if worker.state is State.CALL else 0, at.asked + 1))


def _with(world: World, old: At | None, new: At | None) -> World:
    workers = list(world.workers)
    if old is not None:
        workers.remove(old)
    if new is not None and new.worker.state is not State.END:
        workers.append(new)
    return world._replace(workers=tuple(sorted(workers, key=_rank)))


@cache
def _rank(at: At) -> tuple[str, str, int, int]:
    return (at.worker.state.value, at.worker.reason, at.seen, at.asked)
