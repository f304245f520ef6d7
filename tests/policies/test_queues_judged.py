"""Production with queues for two teams under our own policies: no new violation, and each fault of a queue is found."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache
from typing import Any

import pytest
from google.protobuf import struct_pb2

from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import raw
from tests import plans
from tests.components.test_gpu_queue import CLUSTER_QUEUE, LOCAL_QUEUE, prod_with_queues
from tests.policies.test_own_stacks import as_declared, verdicts

PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
EXCUSED = {("images-pinned", "use1-queues-chart"), ("nothing-expired", "")}
"""Only Kueue's registry knows the digest of this release and of a newer one: production excuses both."""


@cache
def queued() -> Recording:
    return plans.program(prod_with_queues())


def said(found: tuple[Verdict, ...]) -> set[tuple[str, str, str, str]]:
    """What is said against resources, but for Kueue's release."""
    return {
        (each.rule, each.kind, each.urn, each.message)
        for each in found
        if (each.rule, each.urn.rpartition("::")[2]) not in EXCUSED and each.kind != "not-applicable"
    }


@cache
def said_of_queued() -> set[tuple[str, str, str, str]]:
    return said(verdicts(queued(), "prod"))


def test_queues_add_nothing_that_a_policy_minds() -> None:
    assert [each for each in queued().resources if each.type in (CLUSTER_QUEUE, LOCAL_QUEUE)]
    # Production's own queues break nothing, either: the tests of own stacks hold it to that.
    assert said_of_queued() <= said(as_declared("prod"))
    assert {kind for _, kind, _, _ in said_of_queued()} <= {"excepted", "undeterminable"}
    assert not [urn for _, _, urn, _ in said_of_queued() if "queue" in urn.lower()]


def broken(token: str, *path: str | int, value: Any) -> set[str]:
    """The rules that say something of production with one value of the resources of a type changed."""

    def changed(resource: Resource) -> Resource:
        if resource.type != token:
            return resource
        inputs: Any = copy.deepcopy(raw(resource.wire))
        holder = inputs
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value
        made = struct_pb2.Struct()
        made.update(inputs)
        return dataclasses.replace(resource, wire=made)

    recording = dataclasses.replace(queued(), resources=tuple(map(changed, queued().resources)))
    return {rule for rule, *_ in said(verdicts(recording, "prod")) - said_of_queued()}


@pytest.mark.parametrize(
    ("token", "path", "value", "rule"),
    [
        (CLUSTER_QUEUE, ("spec", "resourceGroups", 0, "flavors", 0, "resources", 2, "nominalQuota"), "40", "gpu-limit-ceiling"),
        (CLUSTER_QUEUE, ("spec", "resourceGroups", 0, "coveredResources", 2), "nvidia.com/mig-9g.9gb", "gpu-mig-resource-known"),
        (PRIORITY, ("value",), 2_000_000, "gpu-priority-class"),
    ],
)
def test_a_queue_that_hands_out_too_much_and_a_class_above_runners_are_found(
    token: str, path: tuple[str | int, ...], value: Any, rule: str
) -> None:
    assert rule in broken(token, *path, value=value)
