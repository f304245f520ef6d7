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
State, Worker, Run, Job, Answer, Queue = ACTION.State, ACTION.Worker, ACTION.Run, ACTION.Job, ACTION.Answer, ACTION.Queue

SPOT = frozenset({"gpu-t4"})
RERUN = ("gpu-t4-rerun",)
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
"""How a job of an attempt can end, with what GitHub then shows of it. The names are the truth that the checker trusts."""

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


@cache
def worker_at(state: str, attempt: int) -> Any:
    """A worker by the name of its state and by the attempt that it judges: texts for people are all else that it has."""
    return Worker(State(state), attempt=attempt)


JOBS, CALL, LOOK, WAKE, END = (state.value for state in (State.JOBS, State.CALL, State.LOOK, State.WAKE, State.END))


class At(NamedTuple):
    """A worker of our own: its state, the attempt that it judges or checks, and its requests up to the call.

    `seen` is the attempt that there was when it came to the call.
    """

    state: str
    attempt: int = 1
    seen: int = 0
    asked: int = 0


class World(NamedTuple):
    """Everything that one search state knows."""

    attempt: int = 1
    running: bool = True
    jobs: tuple[tuple[str, ...], ...] = ()
    """Ends of the jobs of each attempt that has ended."""
    mine: bool = False
    """Whether the last attempt is one of our reruns."""
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
    queue: str = ""
    """How our rerun's job waits for a runner: "heard" or "unheard" by the runner set; empty if a runner took it."""
    wakes: int = 0
    """Wakes of the runner set that GitHub accepted from us while the job waited."""


_PLACES = {name: place for place, name in enumerate(World._fields)}


def but(world: World, **changes: Any) -> World:
    """What `_replace` gives, in a third of its time."""
    values = list(world)
    for name, value in changes.items():
        values[_PLACES[name]] = value
    return tuple.__new__(World, values)


@cache
def _step(worker: Any, reply: Any, most: int) -> Any:
    return ACTION.step(worker, reply, SPOT, most)


@dataclass(frozen=True)
class Rules:
    """What is checked: our machine, and what the model assumes. The defaults are what the action does."""

    step: Callable[[World, Any, Any, int], Any] = lambda world, worker, reply, most: _step(worker, reply, most)
    most: int = 2
    """The input `reruns` of the action, which the step gets."""
    start: Callable[[World, int], Any] = lambda world, attempt: Worker()
    """The state in which a worker starts, for an event about this attempt, 0 for a sweep."""
    sweep: bool = True
    prompt: bool = True
    """Between the last look and the call, a moment apart, no whole attempt runs and no newer run appears."""
    workers: int = 2
    """How many workers run at a time. The workflow's concurrency group allows one; the proof does not depend on it."""
    every_end: bool = False
    """Search the worlds of every matrix, although most are those of another one under another name. The command does."""


@cache
def _ends(rules: Rules) -> tuple[tuple[str, ...], ...]:
    """One matrix of each kind that something distinguishes: the machine's step, what is owed, GitHub."""
    kinds: dict[tuple[object, ...], tuple[str, ...]] = {}
    for jobs in MATRICES:
        reply = tuple(ENDS[end] for end in jobs)
        state = rules.step(World(running=False, jobs=(jobs,)), worker_at(JOBS, 1), reply, rules.most).state
        kind = (state, not KILLED & set(jobs), not VETOES & set(jobs), "replaced" in jobs, rules.every_end and jobs)
        kinds.setdefault(kind, jobs)
    return tuple(kinds.values())


MOST = {"reruns": 2, "crashes": 2, "copies": 1, "unheard wakes": 1}
"""How often people rerun, workers crash, events come again and a runner set hears of no wake in one search."""


def owed(world: World, most: int) -> str:
    """What is still owed, empty if nothing is: a rerun of a killed job, or a runner. It knows the truth, and no annotations."""
    jobs = set() if world.running else set(world.jobs[-1])
    ours = world.attempt <= most and (world.attempt == 1 or world.mine)
    if ours and not world.newer and KILLED & jobs and not VETOES & jobs:
        return "nothing was rerun"
    return "no runner was started for the rerun" if world.queue == "unheard" else ""


def moves(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """Every next step of anybody."""
    calling = [at for at in world.workers if at.state == CALL] if rules.prompt else []
    if world.queue == "heard":
        yield "a runner takes the job of our rerun", _looked(but(world, queue="", wakes=0), rules)
    if world.running and not world.queue and not any(at.seen < world.attempt for at in calling):
        # Attempts that we rerun end in every way. The others end as the one before, so an interrupted rerun is interrupted again.
        judged = world.attempt == 1 or (world.mine and world.attempt <= rules.most)
        for jobs in _ends(rules) if judged else world.jobs[-1:]:
            ended = but(world, running=False, jobs=(*world.jobs, jobs), newer=world.newer or "replaced" in jobs)
            yield f"attempt {world.attempt} ends ({', '.join(jobs)})", _event(ended)
    if not world.running and world.reruns < MOST["reruns"]:
        yield "a person reruns", but(world, attempt=world.attempt + 1, running=True, mine=False, reruns=world.reruns + 1)
    if not world.newer and not calling:
        yield "a push starts a newer run", but(world, newer=True)
    yield from _channel(world, rules)
    if rules.sweep and len(world.workers) < rules.workers:
        yield "a sweep starts", _started(world, rules, 0)
    for at in dict.fromkeys(world.workers):
        yield from _worker(world, rules, at)


def _event(world: World) -> World:
    return but(world, events=tuple(sorted((*world.events, world.attempt))))


def _channel(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    """An event is delivered at any time and in any order, once or twice, or it is lost."""
    for attempt in sorted(set(world.events)):
        left = list(world.events)
        left.remove(attempt)
        without = but(world, events=tuple(left))
        yield f"the event of attempt {attempt} is lost", without
        if len(world.workers) < rules.workers:
            yield f"the event of attempt {attempt} starts a worker", _started(without, rules, attempt)
            if world.copies < MOST["copies"]:
                yield (
                    f"the event of attempt {attempt} starts a worker and comes again",
                    _started(but(world, copies=world.copies + 1), rules, attempt),
                )


def _started(world: World, rules: Rules, attempt: int) -> World:
    begun = rules.start(world, attempt)
    return _with(world, None, At(begun.state.value, begun.attempt))


def _worker(world: World, rules: Rules, at: At) -> Iterator[tuple[str, World]]:
    """A worker asks and gets the answer, or it crashes. Between two requests anybody else may act."""
    if world.crashes < MOST["crashes"]:
        yield f"a worker crashes before it asks: {at.state}", but(_with(world, at, None), crashes=world.crashes + 1)
    if at.state == LOOK:
        late = Queue(True, RERUN, True, world.wakes)
        yield f"a worker asks: {LOOK}; none for minutes", _advanced(world, rules, at, late)
        yield f"a worker asks: {LOOK}; not yet", _advanced(world, rules, at, Queue(True, RERUN))
    elif at.state == WAKE:
        yield from _wakes(world, rules, at)
    elif at.state != CALL:
        reply = Run(world.attempt, not world.running, world.newer, by_us=world.mine)
        if at.state == JOBS:
            reply = tuple(ENDS[end] for jobs in world.jobs[at.attempt - 1 : at.attempt] for end in jobs)
        yield f"a worker asks: {at.state}", _looked(_advanced(world, rules, at, reply), rules)
    elif world.running:
        yield "a worker asks: rerun; GitHub refuses: already running", _advanced(world, rules, at, Answer.RUNNING)
    else:
        for queue in ("heard", "unheard"):
            done = but(world, attempt=world.attempt + 1, running=True, mine=True, ours=world.ours + 1, queue=queue)
            starts = f"a worker asks: rerun; GitHub starts it{', and the runner set never hears of it' * (queue == 'unheard')}"
            yield starts, _looked(_advanced(done, rules, at, Answer.ACCEPTED), rules)
            if world.crashes < MOST["crashes"]:
                lost = but(done, crashes=world.crashes + 1)
                yield f"{starts}; its answer is lost", _advanced(lost, rules, at, Answer.UNCLEAR)
        if world.crashes < MOST["crashes"]:
            crashes = world.crashes + 1
            yield (
                "a worker asks: rerun; GitHub never gets it",
                _advanced(but(world, crashes=crashes), rules, at, Answer.UNCLEAR),
            )


def _looked(world: World, rules: Rules) -> World:
    """If no job waits, workers that look see it at once. Later they would see and do the same: fewer worlds, the same effects.

    In an attempt that is not the last one no job waits.
    """
    for at in world.workers:
        if at.state == LOOK and (not world.queue or at.attempt != world.attempt):
            world = _advanced(world, rules, at, Queue())
    return world


def _wakes(world: World, rules: Rules, at: At) -> Iterator[tuple[str, World]]:
    """A worker starts a job for the runner set: the set hears of it and starts a runner, or it hears of this one neither."""
    awake = but(world, wakes=world.wakes + 1, queue="heard") if world.queue else world
    asks = f"a worker asks: {WAKE}"
    yield f"{asks}; it hears", _looked(_advanced(awake, rules, at, Answer.ACCEPTED), rules)
    if world.queue == "unheard" and world.wakes < MOST["unheard wakes"]:
        yield f"{asks}; it does not hear", _advanced(but(awake, queue="unheard"), rules, at, Answer.ACCEPTED)
    if world.crashes < MOST["crashes"]:
        lost = but(world, crashes=world.crashes + 1)
        yield f"{asks}; GitHub never gets it", _looked(_advanced(lost, rules, at, Answer.UNCLEAR), rules)


def _advanced(world: World, rules: Rules, at: At, reply: Any) -> World:
    after = rules.step(world, worker_at(at.state, at.attempt), reply, rules.most)
    state = after.state.value
    if state in (LOOK, WAKE):
        return _with(world, at, At(state, after.attempt))
    if state == CALL:
        return _with(but(world, marked=True), at, At(state, after.attempt, world.attempt, at.asked + 1))
    return _with(world, at, At(state, after.attempt, 0, at.asked + 1))


def _with(world: World, old: At | None, new: At | None) -> World:
    workers = list(world.workers)
    if old is not None:
        workers.remove(old)
    if new is not None and new.state != END:
        workers.append(new)
    return but(world, workers=tuple(sorted(workers)))
