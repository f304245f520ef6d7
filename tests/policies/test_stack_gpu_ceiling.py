"""stack-gpu-ceiling: the GPUs of all pools, standing machines and machines of jobs in one sum, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules.kinds import RESOURCE_QUOTA
from policies.rules.stack_gpu_ceiling import FAR, RULE
from tests.policies.cases import Member
from tests.policies.harness import CLEAN, UNKNOWN, config_of, default, judge_stack, urn
from tests.policies.machine_fixtures import (
    ALL,
    ANNOTATIONS,
    BLOCK,
    BLOCK_TEMPLATE,
    BOX,
    FLEX,
    LAUNCHERS,
    LEFT,
    MACHINE,
    NODE_POOLS,
    RESERVED,
    SCALING_GROUP,
    SPOT_BOX,
    STANDING,
    SYSTEM,
    T4,
    TEMPLATE,
    V100,
    VM,
    but,
    case,
)
from tests.policies.pool_fixtures import GPU, LEAVING, MOST, REQUIREMENTS
from tests.policies.suite import Suite

MAX_GPUS = default(RULE, "maxGpus")


def told(most: int, ways: str, parts: str, limit: int = 0, lower: str = "nodes.max") -> str:
    times = parts.replace(" x ", " \N{MULTIPLICATION SIGN} ")
    raised = config_of(RULE.id, "maxGpus")
    return f"{most} GPUs at most ({ways}) are above {limit}: {times}; lower {lower} of one of these, or raise {raised}"


def said(*members: Member, limit: int = 0) -> tuple[str, ...]:
    return judge_stack(RULE, members, {"maxGpus": limit}).messages


COUNTED: dict[str, tuple[tuple[Member, ...], str]] = {
    "an EKS group": ((TEMPLATE, T4), told(5, "5 spot", "usw2/t4 5 x 1 = 5 spot")),
    "an EKS group, and one that leaves": (
        (TEMPLATE, T4, LEFT),
        told(10, "10 spot", "usw2/t4 5 x 1 = 5 spot, usw2/t4 (leaving) 5 x 1 = 5 spot"),
    ),
    "a reservation": ((RESERVED,), told(8, "8 reserved", "a100-nodes 1 x 8 = 8 reserved")),
    "a capacity block": (
        (BLOCK_TEMPLATE, BLOCK),
        told(8, "8 in a capacity block", "h200-nodes 1 x 8 = 8 in a capacity block"),
    ),
    "a capacity block, whose tag names a smaller type than its template": (
        (BLOCK_TEMPLATE, but(BLOCK, "tags", "gpu-ci/instance-type", "p5.4xlarge")),
        told(8, "8 in a capacity block", "h200-nodes 1 x 8 = 8 in a capacity block"),
    ),
    "an OKE pool": ((V100,), told(4, "4 spot", "v100 4 x 1 = 4 spot")),
    "an OKE pool that leaves, with the nodes that it has": (
        (but(but(V100, "freeformTags", MOST, "0"), "nodeConfigDetails", "size", 3),),
        told(3, "3 spot", "v100 (leaving) 3 x 1 = 3 spot", lower="the number"),
    ),
    "an Auto Scaling group": ((SCALING_GROUP,), told(4, "4 spot", "asg 4 x 1 = 4 spot")),
    "Karpenter": ((NODE_POOLS,), told(4, "4 on demand", "a10g 4 on demand", lower="spec.limits")),
    "an EC2 instance": ((BOX,), told(1, "1 on demand", "box 1 x 1 = 1 on demand", lower="the number")),
    "a spot request": ((SPOT_BOX,), told(1, "1 spot", "spot-box 1 x 1 = 1 spot", lower="the number")),
    "an OCI instance": ((VM,), told(2, "2 on demand", "bench 1 x 2 = 2 on demand", lower="the number")),
    "standing machines": ((MACHINE, STANDING), told(2, "2 on demand", "a10-standing 2 x 1 = 2 on demand", lower="count")),
    "machines of launchers": ((LAUNCHERS,), told(8, "8 on demand", "oracle 4 x 2 = 8 on demand", lower="scale.max")),
}


def test_spot_on_demand_and_reserved_are_told_apart_largest_first() -> None:
    release = replace(but(T4, "capacityType", "ON_DEMAND"), name="release")
    release = but(release, "scalingConfig", "maxSize", 3)
    (message,) = said(TEMPLATE, release, T4, RESERVED, V100, LAUNCHERS, limit=20)
    parts = "a100-nodes 1 x 8 = 8 reserved, oracle 4 x 2 = 8 on demand, usw2/t4 5 x 1 = 5 spot, v100 4 x 1 = 4 spot, and 1 more"
    assert message == told(28, "9 spot, 11 on demand, 8 reserved", parts, 20, "nodes.max or scale.max")


def test_four_parts_are_told_and_no_more_than_that_are_counted() -> None:
    parts = "a100-nodes 1 x 8 = 8 reserved, oracle 4 x 2 = 8 on demand, usw2/t4 5 x 1 = 5 spot, v100 4 x 1 = 4 spot"
    (message,) = said(TEMPLATE, T4, RESERVED, V100, LAUNCHERS)
    assert message == told(25, "9 spot, 8 on demand, 8 reserved", parts, 0, "nodes.max or scale.max")


def test_a_limit_may_be_reached_and_the_default_is_modest() -> None:
    assert said(LAUNCHERS, limit=8) == ()
    assert judge_stack(RULE, (LAUNCHERS,)) == CLEAN
    assert len(judge_stack(RULE, (LAUNCHERS, VM)).messages) == 1
    assert MAX_GPUS == 8


def test_pools_without_a_gpu_count_nothing_whatever_they_are() -> None:
    cpu = but(NODE_POOLS, "spec", {"template": {"metadata": {"labels": {"gpu-ci/role": "system"}}}})
    own = but(SYSTEM, "instanceTypes", ["c9.huge"])
    assert said(SYSTEM, FLEX, cpu, own, but(LAUNCHERS, *ANNOTATIONS, None)) == ()


def test_a_component_is_not_counted_beside_its_child() -> None:
    ours = Member("gpu-ci:index:GpuNodeGroup", "ours", T4.props)
    theirs = Member("eks:index:ManagedNodeGroup", "theirs", T4.props)
    assert said(TEMPLATE, T4, ours, theirs) == said(TEMPLATE, T4)


def test_the_machines_of_a_reservation_count_once_though_a_generation_of_its_pool_leaves() -> None:
    old = replace(but(RESERVED, "taints", [LEAVING]), name="a100-old")
    named = [but(member, "labels", "gpu-ci/pool", "a100") for member in (RESERVED, old)]
    assert said(*named) == (told(8, "8 reserved", "a100 1 x 8 = 8 reserved"),)
    assert said(named[1]) == (told(8, "8 reserved", "a100 (leaving) 1 x 8 = 8 reserved", lower="the number"),), "the pool is gone"


def test_karpenter_counts_the_lesser_of_its_limits() -> None:
    assert said(but(NODE_POOLS, "spec", "limits", {GPU: 9, "nodes": 3})) == (
        told(3, "3 on demand", "a10g 3 x 1 = 3 on demand", lower="spec.limits"),
    )
    assert said(but(NODE_POOLS, "spec", "limits", {GPU: 2, "nodes": 3})) == (
        told(2, "2 on demand", "a10g 2 on demand", lower="spec.limits"),
    )
    assert said(but(NODE_POOLS, "spec", "limits", {GPU: 0})) == ()


NO_BOUND = "it has no maximum number of machines, so nothing limits its GPUs; set its maximum"
UNCOUNTED: dict[str, tuple[tuple[Member, ...], str]] = {
    "an unknown type": (
        (but(BOX, "instanceType", "g9.mega"),),
        "box: g9.mega is accelerated, but not in the hardware table, so its GPUs cannot be counted; "
        "add it to fleet/facts/data/instances.csv, or use another type",
    ),
    "no type": (
        (but(BOX, "instanceType", None),),
        "box: no machine type is named, so its GPUs cannot be counted; name its types",
    ),
    "no maximum": ((TEMPLATE, but(T4, "scalingConfig", None)), f"usw2/t4: {NO_BOUND}"),
    "runners without end": ((but(LAUNCHERS, "values", "maxRunners", None),), f"oracle: {NO_BOUND}"),
    "Karpenter without limits": ((but(NODE_POOLS, "spec", "limits", None),), f"a10g: {NO_BOUND}"),
    "Karpenter with families": (
        (
            but(
                but(NODE_POOLS, "spec", "limits", None),
                *REQUIREMENTS,
                [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}],
            ),
        ),
        f"a10g: {NO_BOUND}",
    ),
}


@pytest.mark.parametrize(("members", "message"), UNCOUNTED.values(), ids=UNCOUNTED)
def test_gpus_that_cannot_be_counted_are_a_violation(members: tuple[Member, ...], message: str) -> None:
    found = judge_stack(RULE, members, {"maxGpus": 1000})
    assert found.messages == (message,)
    assert found.urns == (urn(members[-1].token, members[-1].name),)


@pytest.mark.parametrize("value", [-1, "some", 1.5])
def test_a_maximum_that_is_no_count_bounds_nothing(value: Any) -> None:
    assert said(TEMPLATE, but(T4, "scalingConfig", "maxSize", value)) == (f"usw2/t4: {NO_BOUND}",)


def test_what_is_known_to_break_the_limit_is_told_though_more_is_unknown() -> None:
    verdict = judge_stack(RULE, (LAUNCHERS, but(VM, "shape", UNKNOWN)), {"maxGpus": 7})
    assert verdict.messages == said(LAUNCHERS, limit=7)
    assert verdict.unknown == "shape"
    verdict = judge_stack(RULE, (LAUNCHERS, but(VM, "shape", UNKNOWN)), {"maxGpus": 8})
    assert (verdict.messages, verdict.unknown) == ((), "shape")


def quota(resource: str, number: int) -> Member:
    return Member(RESOURCE_QUOTA, "quota", {"metadata": {"namespace": "runners"}, "spec": {"hard": {resource: str(number)}}})


def far(resource: str, number: int) -> str:
    return (
        f'spec.hard["{resource}"] is {number}, more than {FAR} times the 2 GPUs that the stack may have; lower it, or raise '
        f"{config_of('stack-gpu-ceiling', 'maxGpus')}"
    )


SUITE = Suite(
    RULE,
    passing=(
        case(quota("requests.nvidia.com/gpu", 20), maxGpus=2),
        case(quota("pods", 100), maxGpus=2),
        case(*(member for member in ALL if member.token in RULE.types), maxGpus=100),
        case(TEMPLATE, T4, SYSTEM),
        case(LAUNCHERS),
    ),
    violating=(
        *(
            case(quota(name, 21), messages={far(name, 21): "quota"}, maxGpus=2)
            for name in ("requests.nvidia.com/gpu", "requests.nvidia.com/gpu.shared")
        ),
        *(case(*members, messages={message: ""}, maxGpus=0) for members, message in COUNTED.values()),
        case(
            LAUNCHERS,
            VM,
            messages={
                told(10, "10 on demand", "oracle 4 x 2 = 8 on demand, bench 1 x 2 = 2 on demand", MAX_GPUS, "scale.max"): ""
            },
        ),
        case(TEMPLATE, but(T4, "scalingConfig", {}), messages={f"usw2/t4: {NO_BOUND}": "t4-nodes"}),
    ),
)
