"""The rerun in every order of events: each property holds for the action's machine, and each mistake breaks one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rerun.checker import PROPERTIES, check
from tests.rerun.mutants import ALONE, EVERYBODY, MUTANTS
from tests.rerun.world import ACTION, MOST, Rules


@pytest.mark.parametrize("most", [1, 2])
def test_no_order_of_events_breaks_a_property(most):
    result = check(Rules(most=most))
    assert (result.broken, result.trace) == ("", [])
    assert result.states > 15_000
    assert result.owed > 1_000, "a search in which nothing is owed shows nothing"
    for step in (
        "the event of attempt 1 is lost",
        "the event of attempt 1 starts a worker and comes again",
        "the event of attempt 3 starts a worker",
        "a worker crashes before it asks: rerun",
        "a worker asks: rerun; GitHub refuses: already running",
        "a worker asks: rerun; GitHub starts it; its answer is lost",
        "a worker asks: rerun; GitHub never gets it",
        "a worker asks: rerun; GitHub starts it, and the runner set never hears of it; its answer is lost",
        "a worker asks: look whether a runner took it; not yet",
        "a worker asks: wake the runner set; it does not hear",
        "a worker asks: wake the runner set; GitHub never gets it",
        "a worker crashes before it asks: wake the runner set",
        "a push starts a newer run",
        f"attempt {most + 3} ends (lost, passed)",
    ):
        assert step in result.steps, "the search must reach what it is to judge"


@pytest.mark.parametrize("name", MUTANTS)
def test_the_checker_finds_each_mistake(name):
    rules, broken = MUTANTS[name]
    result = check(rules, [broken])
    assert result.broken == broken, f"the mistake went unseen in {result.states} states"
    assert result.trace[0].startswith("attempt 1 ends"), "the trace starts where the run does"


def test_every_property_is_broken_by_some_mistake():
    assert {broken for _, broken in MUTANTS.values()} == set(PROPERTIES)


@pytest.mark.parametrize("most", [1, 2])
def test_one_worker_at_a_time_never_reruns_more_often_however_slow_it_is(most):
    assert check(replace(ALONE, most=most), ["never more"]).broken == ""


def test_the_second_rerun_is_of_an_attempt_that_ended_in_its_own_way():
    """Otherwise no search could see that a worker judges the wrong attempt."""
    assert {"attempt 2 ends (lost, passed)", "attempt 2 ends (failed, sibling)"} <= check(Rules(workers=1)).steps


def test_a_runner_set_that_hears_of_no_wake_at_all_stays_lost(monkeypatch):
    """docs/rerun.md names this limit: the search must be able to see it."""
    monkeypatch.setitem(MOST, "unheard wakes", ACTION.MOST_WAKES)
    result = check(Rules(workers=1), ["never lost"])
    assert (result.broken, result.trace[-1]) == (
        "never lost",
        "all that is under way ends, and no runner was started for the rerun",
    )


@pytest.mark.parametrize("broken", ["never more", "never a person's", "never superseded"])
def test_the_assumption_about_time_is_needed(broken):
    """Else a search that is too weak would pass unseen: GitHub has no call that reruns one named attempt."""
    result = check(EVERYBODY, [broken])
    assert result.broken == broken
    assert result.trace[-1] == "a worker asks: rerun; GitHub starts it"


def test_the_search_of_no_mistake_is_weaker_than_the_model():
    """Each mistake is in the machine or takes something from the model, and never changes what GitHub does."""
    assert {rules.prompt for rules, _ in MUTANTS.values()} == {True}
