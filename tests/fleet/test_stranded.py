"""Stranded GPUs: each policy against every possibility on small cases, and a stream of jobs on a pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings, strategies as st

from fleet.prove.stranded import POLICIES, Job, Node, Rest, compare, fragment
from tests.fleet.packing import pack

NODE = Node(8, 96_000, 768 * 1024, 20.0)
"""About a machine with eight GPUs."""
MIX = [
    Job("one", 1, 8_000, 60_000, 50, 1800),
    Job("two", 2, 16_000, 120_000, 25, 1800),
    Job("four", 4, 32_000, 240_000, 15, 3600),
    Job("eight", 8, 64_000, 480_000, 10, 3600),
]
jobs = st.lists(
    st.one_of(
        st.builds(Job, st.just("gpus"), st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)),
        st.builds(Job, st.just("part"), st.just(1), st.integers(0, 6), st.integers(0, 6), milli=st.sampled_from([300, 500, 700])),
    ),
    min_size=1,
    max_size=5,
)
nodes = st.lists(st.builds(Node, st.integers(0, 3), st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=3)


# -- by hand: every way to place a job, each GPU with its own place ----------------------------------------------------

Free = tuple[int, int, tuple[int, ...]]


def ways(job: Job, free: Free) -> Iterator[Free]:
    """What each choice of GPUs leaves on a node."""
    cpu, memory, gpus = free
    if cpu < job.cpu or memory < job.memory:
        return
    for chosen in combinations(range(len(gpus)), job.gpus):
        if all(gpus[at] >= job.milli for at in chosen):
            left = tuple(each - job.milli * (at in chosen) for at, each in enumerate(gpus))
            yield cpu - job.cpu, memory - job.memory, left


def lost(mix: Sequence[Job], free: Free) -> float:
    """The expected thousandths that the next job with GPUs cannot use."""
    with_gpus = [job for job in mix if job.gpus]
    total = 0.0
    for job in with_gpus:
        useless = [left for left in free[2] if left < job.milli]
        total += job.share * (sum(useless) if any(ways(job, free)) else sum(free[2]))
    return total / sum(job.share for job in with_gpus) if with_gpus else 0


def by_hand(name: str, mix: Sequence[Job], has: Node, largest: tuple[int, int], before: Free, after: Free) -> float:
    """The score of a policy as its documentation says, the lowest best."""
    used = [1 - left / most if most else 0 for left, most in zip(after[:2], (has.cpu, has.memory), strict=True)]
    on_gpus = 1 - sum(after[2]) / (has.gpus * 1000) if has.gpus else 0
    if name == "spread":
        return sum(used)
    if name == "fill":
        return -sum(used) - on_gpus
    if name == "best fit":
        return after[0] / largest[0] + sum(after[2]) / (largest[1] * 1000 or 1)
    return lost(mix, after) - lost(mix, before)


@settings(max_examples=150, deadline=None)
@given(jobs, nodes, st.sampled_from([*POLICIES]))
def test_each_job_gets_the_best_of_all_nodes_and_gpus(mix: list[Job], has: list[Node], name: str) -> None:
    placed = pack(mix, has, lambda kinds: POLICIES[name](mix, kinds))
    largest = (max(each.cpu for each in has), max(each.gpus for each in has))
    free: list[Free] = [(each.cpu, each.memory, (1000,) * each.gpus) for each in has]
    for job, at in zip(mix, placed, strict=True):
        scored = {
            (place, after): by_hand(name, mix, has[place], largest, each, after)
            for place, each in enumerate(free)
            for after in ways(job, each)
        }
        if at is None:
            assert not scored, "a node had room"
            continue
        assert min(value for (place, _), value in scored.items() if place == at) == pytest.approx(min(scored.values()), abs=1e-6)
        # Of equal choices on the node, the fullest GPU.
        best = min(value for (place, _), value in scored.items() if place == at)
        equal = [after for (place, after), value in scored.items() if place == at and value == pytest.approx(best, abs=1e-6)]
        free[at] = min(equal, key=lambda each: sorted(each[2]))


@settings(max_examples=100, deadline=None)
@given(jobs, nodes, st.sampled_from([*POLICIES]))
def test_no_policy_holds_more_than_the_best_of_all_plans(mix: list[Job], has: list[Node], name: str) -> None:
    def fits(plan: Sequence[int | None]) -> bool:
        # Whole GPUs first: a part then goes to any GPU that is left.
        states: dict[int, set[Free]] = {at: {(each.cpu, each.memory, (1000,) * each.gpus)} for at, each in enumerate(has)}
        for job, at in sorted(zip(mix, plan, strict=True), key=lambda pair: -pair[0].milli):
            if at is not None:
                states[at] = {after for free in states[at] for after in ways(job, free)}
        return all(states.values())

    def size(plan: Sequence[int | None]) -> int:
        return sum(job.gpus * job.milli for job, at in zip(mix, plan, strict=True) if at is not None)

    plans = sorted(product((None, *range(len(has))), repeat=len(mix)), key=size, reverse=True)
    placed = pack(mix, has, lambda kinds: POLICIES[name](mix, kinds))
    assert fits(placed)
    assert size(placed) <= size(next(plan for plan in plans if fits(plan)))


@settings(max_examples=100, deadline=None)
@given(jobs.filter(lambda mix: any(job.gpus for job in mix)), nodes)
def test_stranded_is_what_the_next_job_cannot_use(mix: list[Job], has: list[Node]) -> None:
    for each in has:
        gpus = tuple(sorted((each.cpu * 137 % 1001, *(1000,) * each.gpus)))
        assert fragment(mix)(Rest(each.cpu, each.memory, gpus, 0)) == pytest.approx(lost(mix, (each.cpu, each.memory, gpus)))


def test_the_default_scheduler_opens_every_node_and_a_whole_node_job_finds_none() -> None:
    small, whole = Job("small", 1, 8_000, 60_000), Job("whole", 8, 64_000, 480_000)
    stream = [small] * 4 + [whole]
    assert pack(stream, [NODE] * 4, lambda kinds: POLICIES["spread"](stream, kinds)) == [0, 1, 2, 3, None]
    assert pack(stream, [NODE] * 4, lambda kinds: POLICIES["fill"](stream, kinds)) == [0, 0, 0, 0, 1]


# -- a stream ----------------------------------------------------------------------------------------------------------


def test_filling_pays_less_and_a_whole_node_job_waits_less() -> None:
    found = compare(MIX, NODE, 10, load=0.6)
    spread, fill = found["spread"], found["fill"]
    assert fill.usd_per_useful < 0.95 * spread.usd_per_useful
    assert fill.stranded < 0.6 * spread.stranded
    assert fill.waits["eight"] < 0.5 * spread.waits["eight"]
    for each in found.values():
        assert each.useful + each.stranded < each.paid
        assert each.usd == pytest.approx(each.paid / 8 * 20)
        assert each.nodes <= 10


def test_nodes_that_always_run_cost_the_same_and_whole_node_jobs_wait_for_spread_ones() -> None:
    found = compare(MIX, NODE, 8, least=8, load=0.6)
    spread, fill = found["spread"], found["fill"]
    assert (spread.nodes, fill.nodes) == (8, 8)
    assert spread.paid == pytest.approx(fill.paid)
    assert spread.waits["eight"] > 3 * fill.waits["eight"]


def test_an_empty_node_goes_after_ten_minutes_and_gets_jobs_last_until_then() -> None:
    """Jobs of one GPU that run one after the other: a second node is needed for none of them."""
    one = [Job("one", 1, seconds=60)]
    found = compare(one, NODE, 3, load=0.01, arrivals=200)
    assert {each.nodes for each in found.values()} == {1}
    always = compare(one, NODE, 3, least=1, load=0.01, arrivals=200)["fill"]
    assert found["fill"].paid < always.paid


def test_the_same_seed_says_the_same() -> None:
    assert compare(MIX, NODE, 4, seed=3, arrivals=100) == compare(MIX, NODE, 4, seed=3, arrivals=100)
    assert compare(MIX, NODE, 4, seed=3, arrivals=100) != compare(MIX, NODE, 4, seed=4, arrivals=100)


def test_a_class_alone_strands_what_its_size_leaves() -> None:
    """Two jobs of three GPUs fit on a node of eight: the other two GPUs are stranded while both run."""
    one = compare([Job("three", 3, seconds=600)], NODE, 1, load=3, arrivals=200)["fill"]
    assert one.useful / one.paid == pytest.approx(6 / 8, abs=0.01)
    assert one.stranded / one.paid == pytest.approx(2 / 8, abs=0.01)


def test_a_class_that_fits_no_node_is_named() -> None:
    with pytest.raises(ValueError, match="sixteen: no node of the pool has room"):
        compare([*MIX, Job("sixteen", 16)], NODE, 2)
