"""Real ARC and another minor: what a controller does to a busy set, and the printed steps that drain the sets before."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from fleet.render.arc import SETS, upgrade
from gpu_ci.world import parts
from gpu_ci.world.plane import merge
from gpu_ci.world.run import World
from gpu_ci.world.scale_sets import Job
from gpu_ci.world.steps import Release
from tests.world.test_world import real, world

pytestmark = [pytest.mark.world, pytest.mark.timeout(900), real]

PATH = "/apis/actions.github.com/v1alpha1/namespaces/runners-gpu-t4/autoscalingrunnersets"
VERSION = "app.kubernetes.io/version"
"""Label of a set with the version of its chart. The controller compares its own with it (IsVersionAllowed)."""


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world("staging", "usw2", tmp_path_factory.mktemp("minor"), parts.find()) as made:
        made.install()
        yield made


def sets(staging: World) -> list[Any]:
    found: list[Any] = staging.plane.api.call("GET", PATH)["items"]
    return found


def running(staging: World) -> list[Job]:
    """Three jobs that run until `end`."""
    jobs = [staging.github.queue(("gpu-t4",), seconds=3600) for _ in range(3)]
    assert staging.work(0, lambda: None, lambda: all(job.state == "running" for job in jobs))
    return jobs


def end(jobs: list[Job]) -> None:
    for job in jobs:
        job.seconds = time.time() - job.started + 1


def until(staging: World, ready: Callable[[], bool]) -> None:
    assert staging.work(0, lambda: None, ready), "it does not come"


def test_the_printed_steps_end_no_job_and_the_sets_of_the_new_version_take_those_that_wait(staging: World) -> None:
    busy = running(staging)
    script = upgrade(staging.fleet, "staging", "0.14.2", "0.15.0")
    pauses = [line for line in script if '"maxRunners":0' in line]
    waits = [line for line in script if line.startswith("until ") and "ephemeralrunners" in line]
    assert len(pauses) == len(waits) == 2
    environment = os.environ | {"KUBECONFIG": str(staging.plane.kubeconfig())}
    for line in pauses:
        subprocess.run(["/bin/bash", "-ec", line], env=environment, check=True, capture_output=True)
    end(busy)
    for line in waits:
        quick = line.replace("sleep 30", "sleep 1")
        subprocess.run(["/bin/bash", "-ec", quick], env=environment, check=True, capture_output=True)
    assert [(job.state, job.result) for job in busy] == [("completed", "succeeded")] * 3
    late = [staging.github.queue(("gpu-t4",), seconds=1) for _ in range(2)]
    declared = staging.steps.items()
    of_sets = {urn: step for urn, step in declared if isinstance(step.content, Release) and step.content.chart == SETS}
    staging.installer.remove(of_sets, Random(0))  # noqa: S311 - no secret
    until(staging, lambda: not sets(staging) and not staging.github.sets)
    assert [job.state for job in late] == ["queued", "queued"], "no set takes them"
    staging.install()
    until(staging, lambda: all(job.state == "completed" for job in late))
    assert [(job.result, job.assignments) for job in [*busy, *late]] == [("succeeded", 1)] * 5


def test_a_controller_deletes_a_busy_set_of_another_minor_after_its_jobs(staging: World) -> None:
    busy = running(staging)
    merge(staging.plane.api, f"{PATH}/gpu-t4", {"metadata": {"labels": {VERSION: "0.13.1"}}})
    until(staging, lambda: "deletionTimestamp" in sets(staging)[0]["metadata"])
    assert {job.state for job in busy} == {"running"}
    end(busy)
    until(staging, lambda: not sets(staging))
    assert [(job.state, job.result) for job in busy] == [("completed", "succeeded")] * 3
