"""The real Kubernetes provider: staging comes up in a world's control plane, stays, changes and goes, with AWS simulated."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from gpu_ci.world.follow import owner_of
from tests.conftest import SUMMARY
from tests.engine import staging
from tests.engine.cli import STACK_FILE, Outcome
from tests.world.nodes import NODE_GROUP
from tests.world.provided import Provided, missing, provided

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]

RELEASE = "kubernetes:helm.sh/v3:Release"
SETS = "/apis/actions.github.com/v1alpha1/autoscalingrunnersets"
QUIET = ("--stack", staging.STACK, "--suppress-progress")
EDITS = {
    "system: {instanceTypes: [m6i.large],": "system: {instanceTypes: [m6i.large], disk: 80Gi,",
    "nodes: {min: 0, max: 5}": "nodes: {min: 1, max: 5}",
    "scale: {min: 0, max: 10}": "scale: {min: 0, max: 9}",
}
"""The launch template of the system nodes, the size of t4-spot, and the runner set gpu-t4."""


@dataclass(frozen=True)
class State:
    """What is there after a step: nodes by pool, pods of the controller's namespace with phase, runner sets with maximum."""

    nodes: Mapping[str, list[str]]
    pods: Mapping[str, str]
    most: Mapping[str, int]
    objects: frozenset[str]
    revisions: Mapping[str, int]


def state(world: Provided) -> State:
    api = world.plane.api
    nodes: dict[str, list[str]] = {}
    for node in api.list("/api/v1/nodes"):
        nodes.setdefault(node["metadata"]["labels"]["gpu-ci/pool"], []).append(node["metadata"]["name"])
    pods = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.list("/api/v1/pods") if owner_of(pod)[0] != "DaemonSet"}
    charts = re.compile(r"secrets \S+/sh\.helm\.release\.v1\.(.+)\.v(\d+)")
    objects = world.objects()
    revisions = sorted((found[1], int(found[2])) for found in map(charts.fullmatch, objects) if found)
    most = {each["metadata"]["name"]: each["spec"]["maxRunners"] for each in api.list(SETS)}
    return State(nodes, pods, most, objects, dict(revisions))
