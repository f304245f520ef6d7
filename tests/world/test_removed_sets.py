"""Real ARC and the real Kubernetes provider: a runner class is removed while its jobs run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_ci.world.github import GitHub
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


def test_a_removed_class_stays_until_its_jobs_have_ended(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with provided(tmp_path) as world:
        world.site.up()
        wait(lambda: world.mend() == 0 and RELEASE_SET in listening(world), "the set listens")
        for group in groups(world, "t4-release")[:2]:
            world.cloud.scale(group, 1)
        jobs = [world.github.queue([RELEASE_SET], seconds=3600) for _ in range(2)]
        wait(lambda: world.mend() == 0 and all(job.state == "running" for job in jobs), "two jobs run")

        file = world.site.cli.folder / STACK_FILE.format(staging.STACK)
        file.write_text(CLASS.sub("", file.read_text()))
        seconds = []
        for _ in range(2):
            began = time.monotonic()
            assert f"runner set {RELEASE_SET} is leaving" in world.site.up().text
            seconds.append(time.monotonic() - began)
            assert [job.state for job in jobs] == ["running", "running"], "the update neither ends a job nor waits for one"
        late = world.github.queue([RELEASE_SET], seconds=1)
        for job in jobs:
            job.seconds = 0
        wait(lambda: all(job.state == "completed" for job in jobs), "the jobs end")
        assert [(job.result, job.assignments) for job in jobs] == [("succeeded", 1)] * 2
        wait(lambda: not any(each.startswith("pods ") for each in in_namespace(world)), "no pod is left")
        assert (late.state, RELEASE_SET in registered(world.github)) == ("queued", True)

        began = time.monotonic()
        assert "is leaving" not in world.site.up().text
        seconds.append(time.monotonic() - began)
        assert (in_namespace(world), registered(world.github)) == (set(), {"gpu-t4"})
        world.site.up("--expect-no-changes")
        took = ", ".join(f"{each:.0f}" for each in seconds)
        record_property(SUMMARY, f"runner class {RELEASE_SET} removed: 2 of 2 jobs succeeded, updates of {took} s")
