"""Warm pools on node groups, placeholders as resources."""

from __future__ import annotations

from typing import Any

import botocore.loaders
import pytest

from fleet.facts.scheduling import PLACEHOLDER_PRIORITIES, SKIP_AWAIT
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE
from gpu_ci.offline.recording import Recording
from tests.builders import cluster, pool
from tests.components.built import built
from tests.components.recorded import before, named, of_type, runner_sets

GROUP = "aws:eks/nodeGroup:NodeGroup"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"


def of(**changes: Any) -> Recording:
    """A cluster in two zones whose pool t4 has these changes."""
    return built(clusters={"usw2": cluster(pools={"t4": pool(**changes)})})


def warm_pools(recording: Recording) -> dict[str, Any]:
    """The warm pool of each GPU node group, by zone."""
    groups = [each for each in of_type(recording, GROUP) if "-t4-" in each.name]
    return {each.name.removeprefix("usw2-t4-").removesuffix("-nodes"): each.inputs.get("warmPoolConfig") for each in groups}


@pytest.fixture(scope="module")
def held() -> Recording:
    return of(placeholders=1)


def test_each_zone_has_its_share_and_always_a_maximum() -> None:
    found = warm_pools(of(nodes={"max": 5}, warm={"min": 1, "maxPrepared": 3, "state": "running", "reuseOnScaleIn": True}))
    share = {"poolState": "RUNNING", "reuseOnScaleIn": True}
    assert found == {
        "us-west-2a": share | {"minSize": 1, "maxGroupPreparedCapacity": 2},
        "us-west-2b": share | {"minSize": 0, "maxGroupPreparedCapacity": 1},
    }


def test_a_zone_without_a_share_has_no_warm_pool_and_neither_has_a_pool_without_the_setting() -> None:
    stopped = {"minSize": 0, "maxGroupPreparedCapacity": 1, "poolState": "STOPPED", "reuseOnScaleIn": False}
    assert warm_pools(of(warm={"maxPrepared": 1})) == {"us-west-2a": stopped, "us-west-2b": None}
    assert warm_pools(of()) == {"us-west-2a": None, "us-west-2b": None}


def test_the_states_are_those_of_the_eks_api() -> None:
    states = botocore.loaders.Loader().load_service_model("eks", "service-2")["shapes"]["WarmPoolState"]["enum"]
    assert {"STOPPED", "RUNNING"} < set(states)


def test_placeholders_have_an_isolated_namespace_and_classes_that_exist_before_them_and_before_runners(held: Recording) -> None:
    made = named(held, "usw2-t4-placeholders-deployment", "kubernetes:apps/v1:Deployment")
    assert made.inputs["metadata"]["namespace"] == PLACEHOLDER_NAMESPACE
    assert made.inputs["metadata"]["annotations"] == {SKIP_AWAIT: "true"}, "an update waits for no node"
    classes = {each.urn for each in of_type(held, PRIORITY) if each.name.startswith("usw2-priorities-")}
    assert len(classes) == len(PLACEHOLDER_PRIORITIES)
    wall = named(held, f"usw2-namespaces.{PLACEHOLDER_NAMESPACE}-network", "kubernetes:networking.k8s.io/v1:NetworkPolicy")
    assert {*classes, wall.urn} <= before(held, made)
    (runners,) = runner_sets(held)
    assert runners.values["template"]["spec"]["priorityClassName"] == "gpu-ci-runner-preempts"
    assert classes <= before(held, runners.resource), "the API server refuses a pod whose class does not exist"


def test_without_placeholders_there_is_nothing_of_them() -> None:
    recording = of()
    assert not [each.name for each in recording.resources if "placeholder" in each.name]
    (runners,) = runner_sets(recording)
    assert runners.values["template"]["spec"]["priorityClassName"] == "gpu-ci-runner"
