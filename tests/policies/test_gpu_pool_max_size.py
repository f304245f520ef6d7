"""gpu-pool-max-size: where each kind has its maximum, how GPUs are counted, and when they cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import BLOCK_TYPE_TAG, MOST_NODES_TAG
from policies.rules.gpu_pool_max_size import RULE, SCHEDULE
from tests.builders import oke_pool
from tests.components.oke import NODE_POOL as OKE_TOKEN, planned
from tests.components.recorded import of_type
from tests.policies.cases import Member, StackCase, alone
from tests.policies.harness import CLEAN, REMOVE, changed, config_of, judge_alone, judge_stack, said, urn
from tests.policies.pool_fixtures import (
    ASG,
    EKS,
    GPU,
    GROUP,
    KARPENTER,
    LAUNCHER,
    MOST,
    NODE_POOL,
    OKE,
    OVERRIDES,
    RELEASE,
    REQUIREMENTS,
    RUNNER,
    SHAPES,
    SPOT,
    SYSTEM,
    V100,
    scale_set,
)
from tests.policies.suite import Suite

NVIDIA = '(amiType is "AL2023_x86_64_NVIDIA")'
OKE_SIGN = "(nodeShape: VM.GPU3.1 has 1 GPU)"
KARPENTER_SIGN = "(spec.template.spec.requirements[1].values[0]: g5.xlarge has 1 GPU)"
ASG_SIGN = "(mixedInstancesPolicy.launchTemplate.overrides[0].instanceType: g5.xlarge has 1 GPU)"
MAX = ("scalingConfig", "maxSize")
LIMIT = ("spec", "limits", GPU)
SIZES = ("minSize", "maxSize", "desiredCapacity")
UNCOUNTED = "so its GPUs cannot be counted"


def above(path: str, machines: int, each: str = "1 GPU", cap: int = 4, room: int = 4, setting: str = "maxGpusPerPool") -> str:
    raised = config_of(RULE.id, setting)
    return f"{path} is {machines}: {machines} times {each} is more than {cap} GPUs; write {room} or less, or raise {raised}"


BIG = changed(SPOT, *MAX, 5)
EKS_FAULT = f"{above('scalingConfig.maxSize', 5)} {NVIDIA}"
OKE_FAULT = f"{above(f'freeformTags[{MOST}]', 5)} {OKE_SIGN}"
LAUNCHERS = changed(LAUNCHER, "values", "maxRunners", 5)
LAUNCHER_FAULT = above("values.maxRunners", 5, setting="maxGpusPerMachineSet")
NO_LIMIT = "spec.limits[nvidia.com/gpu] is not set: Karpenter then buys GPUs without a limit; write 4 or less"


def with_options(props: dict[str, Any], *ignored: str) -> tuple[str, ...]:
    """What the rule says of an OKE pool, where the program ignores changes of these paths."""
    return judge_alone(RULE, OKE, props, ignored=ignored).messages


def test_the_maximum_counts_with_the_gpus_of_the_greatest_type() -> None:
    props = changed(changed(SPOT, "instanceTypes", ["g5.xlarge", "g5.12xlarge"]), *MAX, 2)
    assert judge_alone(RULE, EKS, props) == said(f"{above('scalingConfig.maxSize', 2, '4 GPUs', room=1)} {NVIDIA}")
    assert judge_alone(RULE, EKS, props, {"maxGpusPerPool": 8}) == CLEAN


def test_a_machine_that_is_too_great_for_the_cap_is_told_so() -> None:
    (message,) = judge_alone(RULE, EKS, changed(changed(SPOT, "instanceTypes", ["p4d.24xlarge"]), *MAX, 1)).messages
    raised = config_of(RULE.id, "maxGpusPerPool")
    assert f"1 times 8 GPUs is more than 4 GPUs; take a smaller type, or raise {raised}" in message


@pytest.mark.parametrize("size", [REMOVE, None, "many", 2.5, []])
def test_a_gpu_pool_says_its_maximum(size: Any) -> None:
    (message,) = judge_alone(RULE, EKS, changed(SPOT, *MAX, size)).messages
    assert ": a GPU pool needs a maximum number of nodes; write a whole number (amiType" in message


def test_a_pool_without_gpus_has_any_size() -> None:
    assert judge_alone(RULE, EKS, changed(SYSTEM, *MAX, 100)) == CLEAN
    assert judge_alone(RULE, OKE, changed(V100, "nodeShape", "VM.Standard.E5.Flex") | {"freeformTags": {}}) == CLEAN


def test_gpus_that_cannot_be_counted_are_told() -> None:
    stranger = changed(SPOT, "instanceTypes", ["g5.xlarge", "p9.48xlarge"])
    assert judge_alone(RULE, EKS, stranger) == said(
        f'instanceTypes[1]: "p9.48xlarge" is not in the hardware table, {UNCOUNTED}; take another type {NVIDIA}'
    )
    templated = changed(SPOT, "instanceTypes", REMOVE) | {"launchTemplate": {"id": "lt-1"}}
    assert judge_alone(RULE, EKS, templated) == said(
        f"the pool names no machine type, {UNCOUNTED}; name its types on the pool, not in a launch template {NVIDIA}"
    )
    (message,) = judge_alone(RULE, EKS, changed(templated, *MAX, 5)).messages
    assert "5 times 1 GPU or more is more than 4 GPUs" in message


def test_the_type_of_a_capacity_block_is_in_its_tag() -> None:
    """EKS allows the type in the launch template alone, and this rule sees the group alone."""
    block = changed(SPOT, "instanceTypes", REMOVE) | {
        "capacityType": "CAPACITY_BLOCK",
        "launchTemplate": {"id": "lt-1"},
        "tags": {BLOCK_TYPE_TAG: "p5en.48xlarge"},
    }
    (message,) = judge_alone(RULE, EKS, changed(block, *MAX, 2)).messages
    assert "2 times 8 GPUs is more than 4 GPUs" in message
    assert judge_alone(RULE, EKS, changed(block, *MAX, 2), {"maxGpusPerPool": 16}) == CLEAN


def test_a_pool_of_no_node_needs_no_count() -> None:
    assert judge_alone(RULE, EKS, changed(changed(SPOT, "instanceTypes", ["p9.48xlarge"]), *MAX, 0)) == CLEAN


def test_a_pool_of_oke_says_its_autoscalers_maximum_by_a_tag() -> None:
    assert MOST_NODES_TAG == MOST
    assert with_options(changed(V100, "freeformTags", MOST, "5"), "nodeConfigDetails.size") == (OKE_FAULT,)
    assert with_options(V100, "nodeConfigDetails.size") == ()
    assert with_options(V100 | {"freeformTags": {}}, "nodeConfigDetails.size") == (
        f"freeformTags[{MOST}] is not set: a GPU pool needs a maximum number of nodes; write the maximum that the "
        f"autoscaler uses {OKE_SIGN}",
    )


def test_a_pool_of_oke_whose_size_is_the_programs_has_that_many() -> None:
    fixed = changed(V100 | {"freeformTags": {}}, "nodeConfigDetails", "size", 5)
    assert with_options(fixed) == (f"{above('nodeConfigDetails.size', 5)} {OKE_SIGN}",)
    assert with_options(changed(fixed, "nodeConfigDetails", "size", 4)) == ()


def test_our_own_pools_of_oke_have_the_tag_and_it_tells_the_truth() -> None:
    recording = planned(pools={"a10": oke_pool(nodes={"min": 1, "max": 3})})
    tags = {each.name: each.inputs["freeformTags"].get(MOST) for each in of_type(recording, OKE_TOKEN)}
    assert sorted(map(str, tags.values())) == ["3", "None"], "the system pool's size is the program's"
    for each in of_type(recording, OKE_TOKEN):
        assert ("nodeConfigDetails.size" in each.ignore_changes) is (tags[each.name] is not None)


@pytest.mark.parametrize(
    ("limits", "faults"),
    [({GPU: 4}, 0), ({GPU: "4"}, 0), ({GPU: 0}, 0), ({GPU: 5}, 1), ({GPU: "many"}, 1), ({"cpu": 100}, 1), ({}, 1), (None, 1)],
)
def test_karpenter_is_bounded_by_its_limit_of_gpus(limits: Any, faults: int) -> None:
    assert len(judge_alone(RULE, KARPENTER, changed(NODE_POOL, "spec", "limits", limits)).messages) == faults


def test_a_karpenter_pool_may_be_bounded_by_its_nodes() -> None:
    bare = changed(NODE_POOL, "spec", "limits", {"nodes": 4})
    assert judge_alone(RULE, KARPENTER, bare) == CLEAN
    assert judge_alone(RULE, KARPENTER, changed(bare, "spec", "limits", "nodes", 5)) == said(
        f"{above('spec.limits.nodes', 5)} {KARPENTER_SIGN}"
    )
    fixed = changed(changed(NODE_POOL, "spec", "limits", REMOVE), "spec", "replicas", 5)
    assert judge_alone(RULE, KARPENTER, fixed) == said(f"{above('spec.replicas', 5)} {KARPENTER_SIGN}")


def test_nodes_of_any_type_are_no_bound() -> None:
    category = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["g"]}
    props = changed(changed(NODE_POOL, "spec", "limits", {"nodes": 2}), *REQUIREMENTS, [category])
    (message,) = judge_alone(RULE, KARPENTER, props).messages
    assert UNCOUNTED in message


@pytest.mark.parametrize("most", [REMOVE, None, "all"])
def test_launchers_without_a_maximum_boot_without_end(most: Any) -> None:
    (message,) = judge_alone(RULE, RELEASE, changed(LAUNCHER, "values", "maxRunners", most)).messages
    assert ": ARC then boots a GPU machine for every job; write a whole number" in message


def test_a_launcher_counts_with_its_greatest_shape() -> None:
    props = changed(changed(LAUNCHER, *SHAPES, "VM.GPU.A10.1,VM.GPU.A10.2"), "values", "maxRunners", 3)
    assert judge_alone(RULE, RELEASE, props) == said(
        above("values.maxRunners", 3, "2 GPUs", room=2, setting="maxGpusPerMachineSet")
    )
    assert judge_alone(RULE, RELEASE, props, {"maxGpusPerMachineSet": 6}) == CLEAN


def test_runners_of_pods_are_bounded_by_their_pool() -> None:
    assert judge_alone(RULE, RELEASE, scale_set(RUNNER, maxRunners=100)) == CLEAN
    assert judge_alone(RULE, RELEASE, LAUNCHERS | {"chart": "nvidia-device-plugin"}) == CLEAN


def test_an_auto_scaling_group_that_names_no_gpu_type_is_not_judged() -> None:
    assert judge_alone(RULE, ASG, {"maxSize": 100, "launchTemplate": {"id": "lt-1"}}) == CLEAN
    assert judge_alone(RULE, ASG, changed(GROUP, *OVERRIDES, [{"instanceType": "m6i.large"}]) | {"maxSize": 100}) == CLEAN


def test_the_node_groups_of_a_pool_count_together() -> None:
    two, one = (changed(SPOT, *MAX, size) for size in (2, 1))
    found = judge_stack(RULE, [Member(EKS, "a", two), Member(EKS, "b", two), Member(EKS, "c", one)])
    assert found.messages == (f"{EKS_FAULT} (its 3 node groups together)",)
    assert found.urns == (urn(EKS, "a"),)
    other = changed(two, "labels", {"gpu-ci/pool": "other"})
    assert judge_stack(RULE, [Member(EKS, "a", two), Member(EKS, "b", two), Member(EKS, "c", other)]) == CLEAN


def test_what_decides_must_be_known() -> None:
    assert judge_alone(RULE, EKS, SPOT, unknown=MAX) == said(unknown=".".join(MAX))
    assert judge_alone(RULE, EKS, SPOT, unknown=("instanceTypes", 0)) == said(unknown="instanceTypes[0]")
    assert judge_alone(RULE, EKS, BIG, unknown=("instanceTypes", 0)) == said(EKS_FAULT), "too many of the other type already"
    assert judge_alone(RULE, KARPENTER, NODE_POOL, unknown=LIMIT) == said(unknown=".".join(LIMIT))
    assert judge_alone(RULE, EKS, SPOT, unknown=("labels",)) == CLEAN
    assert judge_alone(RULE, RELEASE, LAUNCHER, unknown=("values", "maxRunners")) == said(unknown="values.maxRunners")


@pytest.mark.parametrize("kind", ["v1beta1:NodePool", "v1alpha5:Provisioner", "v1:NodeClaim"])
def test_no_other_kind_of_karpenter_buys_machines(kind: str) -> None:
    told = f"kind: karpenter.sh/{kind} buys machines without a maximum that is judged; write a NodePool of karpenter.sh/v1"
    assert judge_alone(RULE, f"kubernetes:karpenter.sh/{kind}", {"spec": {}}).messages == (told,)


def scheduled(nodes: int) -> Member:
    props = {"autoscalingGroupName": "eks-t4", "recurrence": "0 1 * * *", **dict.fromkeys(SIZES, nodes)}
    return Member(SCHEDULE, "night", props, property_depends={"autoscalingGroupName": ("t4",)})


def test_nothing_shows_the_pool_of_a_schedule_by_a_name() -> None:
    props = {"autoscalingGroupName": "eks-t4", "maxSize": 500}
    assert (
        judge_alone(RULE, SCHEDULE, props).undeterminable
        == "maxSize is 500, and nothing in the stack shows the pool of this schedule"
    )
    assert judge_alone(RULE, SCHEDULE, {"desiredCapacity": -1, "maxSize": 3}) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        alone(EKS, SPOT),
        alone(EKS, SYSTEM),
        alone(EKS, BIG, config={"maxGpusPerPool": 5}),
        alone(OKE, V100),
        alone(KARPENTER, NODE_POOL),
        alone(ASG, GROUP),
        alone(RELEASE, LAUNCHER),
        alone(RELEASE, scale_set(RUNNER)),
        alone(RELEASE, LAUNCHERS, config={"maxGpusPerMachineSet": 5}),
        StackCase((Member(EKS, "t4", SPOT), scheduled(4))),
        alone(SCHEDULE, {"maxSize": 4}),
    ),
    violating=(
        alone(EKS, BIG, (EKS_FAULT,)),
        alone(OKE, changed(V100, "freeformTags", MOST, "5"), (OKE_FAULT,)),
        alone(
            KARPENTER,
            changed(NODE_POOL, *LIMIT, 9),
            (
                "spec.limits[nvidia.com/gpu] is 9: a GPU pool has at most 4 GPUs; write 4 or less, or raise "
                f"{config_of(RULE.id, 'maxGpusPerPool')} {KARPENTER_SIGN}",
            ),
        ),
        alone(KARPENTER, changed(NODE_POOL, "spec", "limits", {}), (f"{NO_LIMIT} {KARPENTER_SIGN}",)),
        alone(ASG, GROUP | {"maxSize": 5}, (f"{above('maxSize', 5)} {ASG_SIGN}",)),
        alone(RELEASE, LAUNCHERS, (LAUNCHER_FAULT,)),
        StackCase(
            (Member(EKS, "t4", SPOT), scheduled(500)),
            {f"{key} is 500: this schedule raises t4 above its maximum of 4 nodes; write 4 or less": "night" for key in SIZES},
        ),
        alone(
            EKS,
            SPOT,
            (f"{above('scalingConfig.maxSize', 4, cap=3, room=3)} {NVIDIA}",),
            config={"maxGpusPerPool": 3, "maxGpusPerMachineSet": 1},
        ),
    ),
)
