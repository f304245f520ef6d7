"""Real ARC and the real Kubernetes provider: a runner class is removed, or its set gets other labels, while its jobs run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_ci.world.github import GitHub
from gpu_ci.world.scale_sets import Job
from tests.conftest import SUMMARY
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.world.provided import Provided, missing, provided
from tests.world.test_runner_set_changes import RELEASE_SET, listening
from tests.world.test_world_provider import groups, wait

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]

SPACE = f"runners-{RELEASE_SET}"
CLASS = re.compile(rf"        {RELEASE_SET}:\n(          .*\n)+")


def registered(github: GitHub) -> set[str]:
    return {of.name for of in github.sets.values()}


def in_namespace(world: Provided) -> set[str]:
    """The namespace and what is in it, without what the cluster's own controllers make."""
    return {each for each in world.objects() if f" {SPACE}/" in each or each.endswith(f"/{SPACE}")}


def running(world: Provided, of_class: str) -> list[Job]:
    """Deploys the stack. Returns two jobs that run on the class until the test ends them."""
    world.site.up()
    wait(lambda: world.mend() == 0 and of_class in listening(world), "the set listens")
    for group in groups(world, "t4-release")[:2]:
        world.cloud.scale(group, 1)
    jobs = [world.github.queue([of_class], seconds=3600) for _ in range(2)]
    wait(lambda: world.mend() == 0 and all(job.state == "running" for job in jobs), "two jobs run")
    return jobs


def leave(world: Provided, of_class: str, jobs: list[Job]) -> list[float]:
    """Two updates, with which the set leaves. Returns their seconds."""
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        assert f"runner set {of_class} is leaving" in world.site.up().text
        seconds.append(time.monotonic() - began)
        assert [job.state for job in jobs] == ["running", "running"], "the update neither ends a job nor waits for one"
    return seconds


def end(world: Provided, jobs: list[Job], space: str) -> None:
    for job in jobs:
        job.seconds = 0
    wait(lambda: all(job.state == "completed" for job in jobs), "the jobs end")
    assert [(job.result, job.assignments) for job in jobs] == [("succeeded", 1)] * 2
    wait(lambda: not any(each.startswith("pods ") and space in each for each in world.objects()), "no pod is left")


def test_a_removed_class_stays_until_its_jobs_have_ended(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with provided(tmp_path) as world:
        jobs = running(world, RELEASE_SET)
        file = world.site.cli.folder / STACK_FILE.format(staging.STACK)
        file.write_text(CLASS.sub("", file.read_text()))
        seconds = leave(world, RELEASE_SET, jobs)
        late = world.github.queue([RELEASE_SET], seconds=1)
        end(world, jobs, SPACE)
        assert (late.state, RELEASE_SET in registered(world.github)) == ("queued", True)

        began = time.monotonic()
        assert "is leaving" not in world.site.up().text
        seconds.append(time.monotonic() - began)
        assert (in_namespace(world), registered(world.github)) == (set(), {"gpu-t4"})
        world.site.up("--expect-no-changes")
        took = ", ".join(f"{each:.0f}" for each in seconds)
        record_property(SUMMARY, f"runner class {RELEASE_SET} removed: 2 of 2 jobs succeeded, updates of {took} s")


def test_a_set_with_a_long_name_gets_other_labels_once_its_jobs_have_ended(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    long = f"{RELEASE_SET}-of-the-second-team-of-ours"
    with provided(tmp_path) as world:
        file = world.site.cli.folder / STACK_FILE.format(staging.STACK)
        text = file.read_text().replace(f"{RELEASE_SET}:\n", f"{long}:\n          labels: [release]\n")
        file.write_text(text)
        jobs = running(world, long)
        file.write_text(text.replace("labels: [release]", "labels: [release-2]"))
        seconds = leave(world, long, jobs)
        late = world.github.queue(["release-2"], seconds=1)
        end(world, jobs, f"runners-{long}/")
        assert late.state == "queued"

        began = time.monotonic()
        assert "is leaving" not in world.site.up().text
        seconds.append(time.monotonic() - began)
        assert registered(world.github) == {"gpu-t4", long}
        wait(lambda: world.mend() == 0 and late.state == "completed", "the new registration takes the job")
        assert (late.result, late.assignments) == ("succeeded", 1)
        world.site.up("--expect-no-changes")
        took = ", ".join(f"{each:.0f}" for each in seconds)
        record_property(SUMMARY, f"runner set {long} replaced: 3 of 3 jobs succeeded, updates of {took} s")
