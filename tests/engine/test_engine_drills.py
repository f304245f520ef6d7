"""Interrupted updates: `gpu-ci pending` lists exactly what is live and in no state, and its commands settle it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine import drills
from tests.engine.drills import Drill
from tests.engine.live import Fault

pytestmark = pytest.mark.engine

KILLS = 25


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """A stack that goes on from kill to kill."""
    with pytest.MonkeyPatch.context() as patch, drills.drill(tmp_path_factory.mktemp("killed") / "drill", patch) as found:
        yield found


@pytest.mark.parametrize("number", range(1, KILLS + 1))
def test_a_kill_after_each_of_25_creates(killed: Drill, number: int) -> None:
    killed.kill(Fault(harm="held"))
    killed.settle()
    assert killed.counts["kills"] == number


def test_after_the_kills_an_update_completes_the_stack_and_the_next_changes_nothing(killed: Drill) -> None:
    killed.finish()
    assert killed.counts["orphans"] >= killed.counts["kills"] > 0, "each kill leaves at least what it held"
    print(f"kills: {killed.counts}")  # noqa: T201 - for whoever repeats the drills: pytest -s
