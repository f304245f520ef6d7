"""Our own stacks under our own policies: as declared, with one thing broken, and as the real pack sees them over gRPC."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import struct_pb2

from offline.judge import Verdict, analyze_request, judge
from offline.policyfile import policy_settings
from offline.record import Recording, Resource, record
from offline.wire import raw
from policies.rules import RULES
from tests.components.recorded import ROOT, STACKS, stack_config
from tests.policies.harness import POLICIES, Pack, started

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {stack: record(ROOT / "__main__.py", stack_config(stack)) for stack in STACKS}


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pack]:
    with started(POLICIES, tmp_path_factory.mktemp("pack") / "stderr") as running:
        yield running


def verdicts(recording: Recording, stack: str) -> tuple[Verdict, ...]:
    return judge(recording, RULES, policy_settings(stack, ROOT))


def mutated(recording: Recording, token: str, name: str, change: Callable[[dict[str, Any]], None]) -> Recording:
    """The recording with the inputs of one resource changed in wire form."""

    def fresh(resource: Resource) -> Resource:
        if (resource.type, resource.name) != (token, name):
            return resource
        inputs = copy.deepcopy(raw(resource.wire))
        change(inputs)
        struct = struct_pb2.Struct()
        struct.update(inputs)
        return dataclasses.replace(resource, wire=struct)

    resources = tuple(map(fresh, recording.resources))
    assert any(new is not old for new, old in zip(resources, recording.resources, strict=True)), f"no {token} {name}"
    return dataclasses.replace(recording, resources=resources)


def _untaint(inputs: dict[str, Any]) -> None:
    del inputs["taints"]


def _misspell(inputs: dict[str, Any]) -> None:
    inputs["taints"][0]["effect"] = "NoSchedule"


def _on_demand(inputs: dict[str, Any]) -> None:
    inputs["capacityType"] = "ON_DEMAND"


def _two_hops(inputs: dict[str, Any]) -> None:
    inputs["metadataOptions"]["httpPutResponseHopLimit"] = 2


def _unlimited(inputs: dict[str, Any]) -> None:
    del inputs["values"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]


MUTATIONS = {
    "gpu-node-taint, removed": (NODE_GROUP, "usw2-t4-spot-nodes", _untaint, "gpu-node-taint"),
    "gpu-node-taint, misspelt": (NODE_GROUP, "usw2-t4-release-nodes", _misspell, "gpu-node-taint"),
    "spot-required-nonprod": (NODE_GROUP, "usw2-t4-spot-nodes", _on_demand, "spot-required-nonprod"),
    "imds-v2-hop-one": (TEMPLATE, "usw2-t4-spot-launch", _two_hops, "imds-v2-hop-one"),
    "gpu-limits-required": (RELEASE, "usw2-gpu-t4-chart", _unlimited, "gpu-limits-required"),
}


@pytest.mark.parametrize("stack", STACKS)
def test_our_own_stacks_break_no_policy_and_leave_none_undetermined(recordings, stack):
    assert verdicts(recordings[stack], stack) == ()


@pytest.mark.parametrize("stack", STACKS)
def test_every_policy_judges_something_of_our_own(recordings, stack):
    types = {resource.type for resource in recordings[stack].resources}
    for rule in RULES:
        assert types & rule.types, f"{rule.id} looks at nothing of stack {stack}: its silence says nothing"


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_one_thing_broken_is_one_violation_of_the_policy_that_guards_it(recordings, mutation):
    token, name, change, rule = MUTATIONS[mutation]
    broken = mutated(recordings["staging"], token, name, change)
    found = verdicts(broken, "staging")
    assert [(verdict.rule, verdict.kind, verdict.level) for verdict in found] == [(rule, "violation", "mandatory")] * len(found)
    assert {verdict.urn.rpartition("::")[2] for verdict in found} == {name}


def test_a_node_group_without_its_taint_is_told_what_to_add(recordings):
    (verdict,) = verdicts(mutated(recordings["staging"], NODE_GROUP, "usw2-t4-spot-nodes", _untaint), "staging")
    assert verdict.message == (
        'taints: a GPU pool (amiType is "AL2023_x86_64_NVIDIA") has a taint nvidia.com/gpu with effect NO_SCHEDULE '
        'or NO_EXECUTE; add {key: nvidia.com/gpu, value: "true", effect: NO_SCHEDULE}'
    )


def _said(pack: Pack, recording: Recording) -> list[tuple[str, str, str, str]]:
    """(policy, level, urn, message) of each diagnostic of the process, without the description that it puts before."""
    return [
        (each.policyName, str(each.enforcementLevel), resource.urn, each.message.partition("\n")[2] or each.message)
        for resource in recording.resources
        for each in pack.stub.Analyze(analyze_request(resource), timeout=10).diagnostics
    ]


@pytest.mark.parametrize("mutation", ["as declared", *MUTATIONS])
@pytest.mark.parametrize("stack", STACKS)
def test_the_pack_as_a_process_says_the_same_of_every_resource(recordings, pack, stack, mutation):
    recording = recordings[stack]
    if mutation != "as declared":
        token, name, change, _ = MUTATIONS[mutation]
        if not any((resource.type, resource.name) == (token, name) for resource in recording.resources):
            token, name, change = NODE_GROUP, "usw2-v100-nodes", _untaint
        recording = mutated(recording, token, name, change)
    settings = policy_settings(stack, ROOT)
    pack.configure(settings)
    here = [
        (verdict.rule, "1" if verdict.level == "mandatory" else "0", verdict.urn, verdict.message)
        for verdict in judge(recording, RULES, settings)
    ]
    assert _said(pack, recording) == here
    assert bool(here) is (mutation != "as declared")
