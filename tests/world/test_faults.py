"""The catalogue of drills, and what an outcome says: on a GitHub in memory, and on a real control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleet.facts.errors import InputError
from gpu_ci.world.faults import ACTS, DRILLS, Acts, Drill, drilled, named
from gpu_ci.world.parts import find
from gpu_ci.world.processes import WorldError
from gpu_ci.world.run import World
from gpu_ci.world.scale_sets import Service
from tests.builders import ROOT


def test_every_drill_has_texts_and_acts():
    assert [*DRILLS] == [*ACTS]
    for drill in DRILLS.values():
        assert drill.what
        assert drill.sees
        assert bool(drill.open) == (drill.acts.way_out is not None), drill.name
        assert bool(drill.lasts) <= (drill.acts.heal is not None), drill.name


def test_a_name_is_one_drill_and_all_are_all():
    assert named(None, 1000) == []
    assert [drill.name for drill in named("node-lost", 60)] == ["node-lost"]
    assert named("all", 60) == [*DRILLS.values()]


@pytest.mark.parametrize(
    ("text", "factor", "message"),
    [
        ("node-lst", 60, r"--faults: no drill is named 'node-lst'; did you mean node-lost\?"),
        ("xyzzy", 60, "--faults: .*; one of nothing, first-pool-refused, .*, all$"),
        ("all", 61, "--factor: must be at most 60 with --faults.*; got 61"),
    ],
)
def test_a_wrong_name_and_a_factor_that_alerts_cannot_follow_are_refused(text, factor, message):
    with pytest.raises(InputError, match=message):
        named(text, factor)


class Simple:
    """A world with a GitHub alone, whose jobs start at once and end when somebody waits, unless they are `stuck`."""

    def __init__(self) -> None:
        self.github, self.stuck, self.fails = Service(), False, 0
        self.settings = SimpleNamespace(pod_runners={"small": runner(1), "large": runner(4)})

    def work(self, _: int, look: Callable[[], None], until: Callable[[], bool], still: float = 0) -> bool:
        for job in self.github.jobs:
            if job.state == "queued" and not self.stuck:
                job.state, job.started = "running", 1
        look()
        if until():
            return True
        for job in self.github.jobs:
            if job.state == "running":
                self.fails -= 1
                job.state, job.result = "completed", "failed" if self.fails >= 0 else "succeeded"
        return until()


def runner(most: int) -> Any:
    return SimpleNamespace(scale=SimpleNamespace(max=most))


def outcome(acts: Acts, **more: Any) -> Any:
    world = Simple()
    fired = iter([{"Old"}] * 2 + [{"Old", "New"}] * 20)
    drill = Drill("one", acts, "what", "sees", **more)
    found = drilled(cast("World", world), drill, lambda: next(fired), lambda: None)
    assert {job.runs_on for job in world.github.jobs} <= {("large",)}
    return found


def nothing(_: Any) -> None:
    """No fault."""


def stick(world: Any) -> None:
    world.stuck = True


def free(world: Any) -> None:
    world.stuck = False


def lose(world: Any) -> None:
    world.fails = 1


def break_off(_: Any) -> None:
    raise WorldError("it is broken")


def test_a_drill_that_goes_as_it_should_has_the_alerts_that_are_new():
    found = outcome(Acts(nothing))
    assert (found.jobs, found.lost, found.against, found.freed) == (12, 0, "", None)
    assert found.alerts == ["New"]


def test_a_job_may_be_lost_where_the_drill_says_so_and_nowhere_else():
    assert outcome(Acts(lose)).against == "1 jobs are lost"
    found = outcome(Acts(lose), lose=1)
    assert (found.lost, found.against) == (1, "")


def test_jobs_that_stay_speak_against_a_drill_and_a_way_out_frees_them():
    assert outcome(Acts(stick)).against == "9 jobs have not ended"
    found = outcome(Acts(stick, None, free), open="a known one")
    assert found.against == ""
    assert found.freed is not None


def test_a_fault_that_is_called_open_and_heals_speaks_against_the_drill():
    assert "it heals by itself" in outcome(Acts(nothing, None, free), open="a known one").against


def test_an_act_that_fails_speaks_against_the_drill():
    assert outcome(Acts(break_off)).against == "it is broken"


@pytest.mark.world
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["node-lost"])
def test_a_drill_of_a_real_world_goes_as_it_should(name, tmp_path):
    if missing := [*find().missing, *({"GPU_CI_REFERENCE"} - os.environ.keys())]:
        pytest.skip(f"not here: {', '.join(missing)}")
    record, charts = tmp_path / "record.json", os.environ["GPU_CI_REFERENCE"]
    words = [sys.executable, "-m", "gpu_ci", "world", "staging", "--faults", name, "--charts", charts, "--record", str(record)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [found] = json.loads(record.read_text())["drills"]
    assert (found["drill"], found["lost"], found["against"]) == (name, 1, "")
