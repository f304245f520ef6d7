"""Searches every reachable world breadth first and checks the properties in each. A violation has the shortest trace to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from time import perf_counter

from tests.rerun.world import ACTION, KILLED, VETOES, Rules, World, moves, owed

PROPERTIES = {
    "never more": "GitHub accepts at most as many reruns from us as `reruns` says, one or two",
    "never a person's": "we rerun no attempt that a person started",
    "never superseded": "we rerun nothing while a newer run exists",
    "never cancelled": "we rerun nothing that a person or a newer run cancelled",
    "never needless": "we rerun only if a job was interrupted or without a runner",
    "bounded": "a run has its first attempt, ours and those of people; a worker asks at most four times up to the call; "
    "a rerun has at most two wakes, and one more for each further worker",
    "never lost": "from every world, one sweep without a crash reruns what is owed, and the runner set hears of every rerun",
}


@dataclass
class Result:
    """What a search found."""

    states: int = 0
    transitions: int = 0
    seconds: float = 0
    broken: str = ""
    """The property that does not hold, empty if all do."""
    trace: list[str] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)
    """Every kind of step that was taken."""
    owed: int = 0
    """Worlds in which a rerun or a runner was owed, for each of which "never lost" was checked."""


def check(rules: Rules, properties: Collection[str] = PROPERTIES) -> Result:
    """Search until one of the properties is violated, or through every world."""
    begun = perf_counter()
    result = Result()
    first = World()
    before: dict[World, tuple[World, str] | None] = {first: None}
    waiting = deque([first])
    asked_of, ends = set(properties), Ends(rules)
    while waiting and not result.broken:
        world = waiting.popleft()
        if lost := owed(world, rules.most):
            result.owed += 1
            if "never lost" in properties and (lost := owed(drained(world, ends), rules.most)):
                result.broken, result.trace = "never lost", [*path(before, world), f"all that is under way ends, and {lost}"]
                break
        for name, after in moves(world, rules):
            result.transitions += 1
            result.steps.add(name)
            if after not in before:
                before[after] = (world, name)
                waiting.append(after)
            if broken := violated(world, after, rules) & asked_of:
                result.broken, result.trace = min(broken), [*path(before, world), name]
                break
    result.states = len(before)
    result.seconds = perf_counter() - begun
    return result


def violated(world: World, after: World, rules: Rules) -> set[str]:
    """The properties that this step breaks."""
    found: set[str] = set()
    if (
        after.attempt > 1 + rules.most + after.reruns
        or after.wakes > ACTION.MOST_WAKES + rules.workers - 1
        or any(at.asked > 4 for at in after.workers)
    ):
        found.add("bounded")
    if after.ours > world.ours:
        jobs = set(world.jobs[-1])
        found |= {
            name
            for name, broken in {
                "never more": after.ours > rules.most,
                "never a person's": world.attempt > 1 and not world.mine,
                "never superseded": world.newer,
                "never cancelled": VETOES & jobs,
                "never needless": not KILLED & jobs,
            }.items()
            if broken
        }
    return found


class Ends(dict[World, World]):
    """The world after its workers ran to their ends without a crash, by the world before. Many worlds share their way."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def __missing__(self, world: World) -> World:
        asked = (after for name, after in moves(world, self.rules) if name.startswith("a worker asks"))
        after = next(asked, None)
        self[world] = world if after is None else self[after]
        return self[world]


def drained(world: World, ends: Ends) -> World:
    """The world after every worker, every waiting event and then one sweep ran to the end, with no other worker about."""
    world = ends[world]
    while begun := [after for name, after in moves(world, ends.rules) if "starts a worker" in name]:
        world = ends[begun[0]]
    for name, after in moves(world, ends.rules):
        if name == "a sweep starts":
            return ends[after]
    return world


def path(before: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    """The steps from the first world to this one."""
    names = []
    while (link := before[world]) is not None:
        world, name = link
        names.append(name)
    return names[::-1]
