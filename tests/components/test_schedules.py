"""Schedules as resources: scheduled actions of node groups, runner sets without a minimum, and the sweep."""

from __future__ import annotations

from typing import Any

import botocore.loaders
import pytest

from fleet.facts.scheduling import SCHEDULED_NODES_TAG
from gpu_ci.offline.recording import Recording
from tests.builders import cluster, pool, runner
from tests.components.built import built
from tests.components.recorded import named, of_type, runner_sets

GROUP, ACTION = "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/schedule:Schedule"
WORK = {"days": ["mon", "tue", "wed", "thu", "fri"], "start": "09:00", "end": "18:00"}


def schedules(**size: int) -> dict[str, Any]:
    return {"timeZone": "America/Los_Angeles", "holidays": ["2026-12-25"], "windows": {"work": WORK | size}}


def made(pool_settings: dict[str, Any], runner_settings: dict[str, Any]) -> Recording:
    settings = cluster(pools={"t4": pool(nodes={"max": 6}, **pool_settings)}, runners={"gpu-t4": runner(**runner_settings)})
    return built(clusters={"usw2": settings})


@pytest.fixture(scope="module")
def scheduled() -> Recording:
    return made({"schedules": schedules(nodes=5)}, {"schedules": schedules(runners=2)})


@pytest.fixture(scope="module")
def plain() -> Recording:
    return made({}, {})


def test_an_action_sets_minimum_and_maximum_and_leaves_the_size_alone(scheduled: Recording) -> None:
    found = named(scheduled, "usw2-t4-us-west-2a-schedule-work-start", ACTION)
    assert found.inputs["autoscalingGroupName"], "EKS names the group"
    assert {key: value for key, value in found.inputs.items() if key != "autoscalingGroupName"} == {
        "scheduledActionName": "work-start",
        "recurrence": "0 9 * * 1,2,3,4,5",
        "timeZone": "America/Los_Angeles",
        "minSize": 3,
        "maxSize": 3,
        "desiredCapacity": -1,
    }, "the default of desiredCapacity is 0, which would end all nodes"


def test_every_zone_has_a_start_an_end_and_its_holiday_and_the_minima_sum_to_the_windows(scheduled: Recording) -> None:
    actions = of_type(scheduled, ACTION)
    least = {each.name.removeprefix("usw2-t4-us-west-"): each.inputs["minSize"] for each in actions}
    assert least == {
        f"{zone}-schedule-work-{suffix}": share
        for zone, start in (("2a", 3), ("2b", 2))
        for suffix, share in (("start", start), ("end", 0), ("not-2026-12-25", 0))
    }


def test_the_actions_are_those_of_the_api(scheduled: Recording) -> None:
    model = botocore.loaders.Loader().load_service_model("autoscaling", "service-2")
    members = {name.lower() for name in model["shapes"]["PutScheduledUpdateGroupActionType"]["members"]}
    assert {key.lower() for each in of_type(scheduled, ACTION) for key in each.inputs} <= members


def test_a_scheduled_pool_leaves_all_sizes_to_its_actions_and_another_only_the_desired_one(
    scheduled: Recording, plain: Recording
) -> None:
    for recording, ignored in ((scheduled, ("scalingConfig",)), (plain, ("scalingConfig.desiredSize",))):
        groups = [each for each in of_type(recording, GROUP) if "-t4-" in each.name]
        assert [tuple(each.ignore_changes) for each in groups] == [ignored, ignored]
        assert (SCHEDULED_NODES_TAG in groups[0].inputs["tags"]) is (recording is scheduled)
    assert not of_type(plain, ACTION)


def test_a_scheduled_runner_set_does_not_declare_how_many_wait(scheduled: Recording, plain: Recording) -> None:
    (without,), (usual,) = runner_sets(scheduled), runner_sets(plain)
    assert usual.values["minRunners"] == 0
    assert "minRunners" not in without.values, "Helm and ArgoCD would put it back"
    assert without.values == {key: value for key, value in usual.values.items() if key != "minRunners"}


def test_the_sweep_runs_only_where_a_class_has_schedules(scheduled: Recording, plain: Recording) -> None:
    kind = "kubernetes:apps/v1:Deployment"
    names = [[each.inputs["metadata"]["name"] for each in of_type(found, kind)] for found in (scheduled, plain)]
    assert ["runner-scheduler" in found for found in names] == [True, False]
