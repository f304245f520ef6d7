"""Real ARC and the real Kubernetes provider: a runner set moves to another URL, then gets other labels, while its jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_ci.world.scale_sets import Job
from tests.conftest import SUMMARY
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.world.provided import Provided, missing, provided
from tests.world.test_world_provider import SETS, groups, wait

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]

RELEASE_SET = "gpu-t4-release"
URL = ("url: https://github.com/example", "url: https://github.com/example/app")
LABELS = ("labels: [self-hosted, linux, x64, gpu, cuda]", "labels: [self-hosted, linux, x64, gpu, cuda-12]")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provided]:
    """Staging, deployed, with nodes for four jobs."""
    with provided(tmp_path_factory.mktemp("sets")) as made:
        made.site.up()
        wait(lambda: made.mend() == 0 and listening(made) == {"gpu-t4", RELEASE_SET}, "both sets listen")
        for group in groups(made, "t4-spot"):
            made.cloud.scale(group, 2)
        yield made


def listening(world: Provided) -> set[str]:
    """Names of the sets at GitHub that have a listener."""
    return {of.name for of in world.github.sets.values() if of.session}


def objects(world: Provided) -> dict[str, int]:
    """The sets of the class in the cluster, with their maximum."""
    there = world.plane.api.list(SETS.replace("autoscaling", "namespaces/runners-gpu-t4/autoscaling"))
    return {each["metadata"]["name"]: each["spec"]["maxRunners"] for each in there}


def edit(world: Provided, words: str, other: str) -> None:
    path: Path = world.site.cli.folder / STACK_FILE.format(staging.STACK)
    text = path.read_text()
    assert text.count(words) == 1
    path.write_text(text.replace(words, other))


def running(world: Provided) -> list[Job]:
    """Three jobs that run on the class until the test ends them."""
    jobs = [world.github.queue(["gpu-t4"], seconds=3600) for _ in range(3)]
    wait(lambda: world.mend() == 0 and sum(job.state == "running" for job in jobs) == 3, "three jobs run")
    return jobs


@pytest.mark.parametrize("change", [URL, LABELS])
def test_a_changed_set_drains_beside_the_new_one(
    world: Provided, change: tuple[str, str], record_property: Callable[[str, object], None]
) -> None:
    (old,) = objects(world)
    jobs = running(world)
    edit(world, *change)
    began = time.monotonic()
    world.site.up()
    first = time.monotonic() - began
    assert not any(job.state == "completed" for job in jobs), "the update waits for no job"
    sets = objects(world)
    (new,) = sets.keys() - {old}
    assert (sets[old], sets[new]) == (0, 10)
    wait(lambda: world.mend() == 0 and new in listening(world), "the new set listens")
    late = world.github.queue(["gpu-t4"], seconds=1)
    wait(lambda: late.state == "completed", "the new set takes a job that asks for the class")

    began = time.monotonic()
    world.site.up()
    second = time.monotonic() - began
    assert not any(job.state == "completed" for job in jobs), "the next update waits for no job either"
    wait(lambda: old not in listening(world), "the listener of the old set goes")
    assert old in objects(world), "ARC keeps the old set while its runners run"
    for job in jobs:
        job.seconds = 0
    wait(lambda: all(job.state == "completed" for job in [*jobs, late]), "all jobs end")
    assert [(job.result, job.assignments) for job in [*jobs, late]] == [("succeeded", 1)] * 4
    wait(lambda: objects(world).keys() == {new}, "the old set is gone")
    assert old not in {of.name for of in world.github.sets.values()}, "its registration is gone, too"
    world.site.up("--expect-no-changes")
    record_property(SUMMARY, f"runner set {old} -> {new}: 4 of 4 jobs succeeded, updates of {first:.0f} and {second:.0f} s")
