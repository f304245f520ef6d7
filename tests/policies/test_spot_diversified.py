"""spot-diversified: number and likeness of types, zones, and what is never sold as spot."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.spot_diversified import RULE
from tests.policies.cases import Member, alone
from tests.policies.harness import CLEAN, REMOVE, changed, judge_alone, judge_stack, said
from tests.policies.pool_fixtures import (
    ASG,
    EKS,
    GROUP,
    KARPENTER,
    LEAVING,
    NODE_POOL,
    OKE,
    OVERRIDES,
    RELEASES,
    REQUIREMENTS,
    RESERVED,
    SPOT,
    TAINT,
    V100,
    with_values,
)
from tests.policies.suite import Suite

NVIDIA = '(amiType is "AL2023_x86_64_NVIDIA")'
OKE_SIGN = "(nodeShape: VM.GPU3.1 has 1 GPU)"
KARPENTER_SIGN = "(spec.template.spec.requirements[1].values[0]: g5.xlarge has 1 GPU)"
ASG_SIGN = "(mixedInstancesPolicy.launchTemplate.overrides[0].instanceType: g5.xlarge has 1 GPU)"
PLACES = ("nodeConfigDetails", "placementConfigs")
ZONES = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a"]}


OF_ZONES = "Pulumi.staging.yaml: gpu-ci:clusters.<cluster>.pools.<pool>.zones"


def few_types(path: str, given: str = "1 type", wanted: int = 2) -> str:
    return f"{path} has {given}: a spot GPU pool needs {wanted} or more; add types with the same GPUs"


def few_zones(path: str, given: str, wanted: int = 2, fix: str = "add one") -> str:
    return f"{path} has {given}: a spot GPU pool needs {wanted} zones or more; {fix} ({OF_ZONES})"


def few_subnets(given: str, wanted: int = 2) -> str:
    """Of a managed node group."""
    fix = "add a node group of the pool in another zone, and let nodes.max be one per zone or more"
    return few_zones("subnetIds", given, wanted, fix)


def other_gpus(path: str, name: str, first: str) -> str:
    return f'{path}: "{name}" has other GPUs than "{first}": all types of a pool have the same; move it to another pool'


def unlike(path: str, name: str, first: str, spread: str = "2") -> str:
    return (
        f'{path}: "{name}" has more than {spread} times the CPUs or memory of "{first}", or the reverse: the autoscaler '
        "treats them as one size; use more similar types"
    )


def of_types(*types: str) -> dict[str, Any]:
    return SPOT | {"instanceTypes": list(types)}


def test_pools_that_buy_no_spot_are_left_alone() -> None:
    for props in (RELEASES, RESERVED):
        assert judge_alone(RULE, EKS, changed(props | {"subnetIds": []}, "instanceTypes", ["g5.xlarge"])) == CLEAN
    assert judge_alone(RULE, KARPENTER, changed(with_values(0, "on-demand"), *REQUIREMENTS, 1, "values", ["g5.xlarge"])) == CLEAN


def test_a_cpu_pool_on_spot_is_left_alone() -> None:
    props = of_types("m6i.large") | {"amiType": "AL2023_x86_64_STANDARD", "labels": {}}
    assert judge_alone(RULE, EKS, props) == CLEAN


@pytest.mark.parametrize(
    ("types", "faults"), [(["g5.xlarge"], 1), (["g5.xlarge", "g5.xlarge"], 1), (["g5.xlarge", "g5.2xlarge"], 0)]
)
def test_the_same_type_twice_is_one(types: list[str], faults: int) -> None:
    assert len(judge_alone(RULE, EKS, of_types(*types)).messages) == faults


def test_a_type_of_the_launch_template_is_the_only_one() -> None:
    props = changed(SPOT, "instanceTypes", REMOVE) | {"launchTemplate": {"id": "lt-1"}}
    assert judge_alone(RULE, EKS, props) == said(
        f"{few_types('instanceTypes', 'no type, so it has only its launch template' + chr(39) + 's')} {NVIDIA}"
    )


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("g5.12xlarge", other_gpus),
        ("g6.xlarge", other_gpus),
        ("g5.4xlarge", unlike),
        ("g5.2xlarge", None),
        ("p9.48xlarge", None),
    ],
)
def test_types_of_one_pool_are_alike(second: str, message: Any) -> None:
    found = judge_alone(RULE, EKS, of_types("g5.xlarge", second))
    expected = [] if message is None else [f"{message('instanceTypes[1]', second, 'g5.xlarge')} {NVIDIA}"]
    assert list(found.messages) == expected


def test_memory_counts_like_cpus() -> None:
    p3 = of_types("g5.2xlarge", "p3.2xlarge")
    assert judge_alone(RULE, EKS, p3).messages[0].startswith("instanceTypes[1]")
    assert judge_alone(RULE, EKS, of_types("g6e.4xlarge", "g6e.2xlarge")) == CLEAN
    assert judge_alone(RULE, EKS, of_types("g6e.4xlarge", "g6e.2xlarge"), {"maxSpread": 1.5}) == said(
        f"{unlike('instanceTypes[1]', 'g6e.2xlarge', 'g6e.4xlarge', '1.5')} {NVIDIA}"
    )


def test_numbers_are_configurable() -> None:
    one = of_types("g5.xlarge") | {"subnetIds": ["subnet-a"]}
    assert len(judge_alone(RULE, EKS, one).messages) == 2
    assert judge_alone(RULE, EKS, one, {"minTypes": 1, "minZones": 1}) == CLEAN
    assert judge_alone(RULE, EKS, SPOT, {"minTypes": 3, "minZones": 3}) == said(
        f"{few_types('instanceTypes', '2 types', 3)} {NVIDIA}", f"{few_subnets('2 subnets', 3)} {NVIDIA}"
    )


def test_a_shape_that_oci_does_not_sell_as_preemptible_is_told() -> None:
    props = changed(V100, "nodeShape", "VM.GPU.A10.1")
    assert judge_alone(RULE, OKE, props) == said(
        'nodeShape: "VM.GPU.A10.1" is not sold as spot; use another type, or buy on demand (nodeShape: VM.GPU.A10.1 has 1 GPU)'
    )


def test_placements_in_one_availability_domain_are_one_zone() -> None:
    same = changed(V100, *PLACES, 1, "availabilityDomain", "AD-1")
    fault = f"{few_zones('nodeConfigDetails.placementConfigs', '1 availability domain')} {OKE_SIGN}"
    assert judge_alone(RULE, OKE, same) == said(fault)
    assert judge_alone(RULE, OKE, same, {"minZones": 1}) == CLEAN


@pytest.mark.parametrize(("zones", "faults"), [(["a"], 1), (["a", "b"], 0), ([], 1)])
def test_a_karpenter_pool_is_in_every_zone_unless_a_requirement_names_some(zones: list[str], faults: int) -> None:
    props = changed(NODE_POOL, *REQUIREMENTS, 2, ZONES | {"values": zones})
    assert len(judge_alone(RULE, KARPENTER, props).messages) == faults
    assert judge_alone(RULE, KARPENTER, changed(props, *REQUIREMENTS, 2, "operator", "NotIn")) == CLEAN


def test_a_karpenter_pool_without_a_list_of_types_takes_many() -> None:
    names = {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["a10g"]}
    assert judge_alone(RULE, KARPENTER, changed(NODE_POOL, *REQUIREMENTS, 1, names)) == CLEAN


def test_an_auto_scaling_group_that_chooses_by_attributes_takes_many() -> None:
    overrides = [{"instanceType": "g5.xlarge"}, {"instanceRequirements": {"vcpuCount": {"min": 4}}}]
    assert judge_alone(RULE, ASG, changed(GROUP, *OVERRIDES, overrides)) == CLEAN


def test_availability_zones_count_for_subnets() -> None:
    assert judge_alone(RULE, ASG, changed(GROUP, "vpcZoneIdentifiers", REMOVE) | {"availabilityZones": ["a", "b"]}) == CLEAN


def test_an_auto_scaling_group_takes_another_subnet_in_place() -> None:
    found = judge_alone(RULE, ASG, changed(GROUP, "vpcZoneIdentifiers", ["subnet-a"]))
    assert found == said(f"{few_zones('vpcZoneIdentifiers', '1 subnet')} {ASG_SIGN}")


def test_ids_of_subnets_may_be_unknown_how_many_may_not() -> None:
    assert judge_alone(RULE, EKS, SPOT, unknown=("subnetIds", 0)) == CLEAN
    assert judge_alone(RULE, EKS, SPOT, unknown=("subnetIds",)) == said(unknown="subnetIds")


def test_a_pool_with_a_node_group_per_zone_is_in_all_their_zones() -> None:
    def in_zones(*zones: str) -> tuple[str, ...]:
        members = [Member(EKS, zone, SPOT | {"subnetIds": [f"subnet-{zone}"]}) for zone in zones]
        return judge_stack(RULE, members, {"minZones": 3}).messages

    assert in_zones("a", "b", "c") == ()
    assert in_zones("a", "b") == (f"{few_subnets('2 subnets', 3)} {NVIDIA} (its 2 node groups together)",)


def test_what_decides_must_be_known() -> None:
    one = of_types("g5.xlarge")
    assert judge_alone(RULE, EKS, one, unknown=("capacityType",)) == said(unknown="capacityType")
    assert judge_alone(RULE, EKS, SPOT, unknown=("capacityType",)) == CLEAN
    assert judge_alone(RULE, EKS, SPOT, unknown=("instanceTypes", 1)) == said(unknown="instanceTypes[1]")
    assert judge_alone(RULE, OKE, V100, unknown=(*PLACES, 0)) == said(unknown=f"{'.'.join(PLACES)}[0]")


def test_a_pool_that_leaves_may_be_in_its_last_zone() -> None:
    last = of_types("g4dn.xlarge") | {"subnetIds": ["subnet-a"]}
    assert len(judge_alone(RULE, EKS, last).messages) == 2
    assert judge_alone(RULE, EKS, last | {"taints": [TAINT, LEAVING]}) == CLEAN


SUITE = Suite(
    RULE,
    passing=(
        alone(EKS, SPOT),
        alone(EKS, RELEASES),
        alone(EKS, of_types("g4dn.xlarge") | {"subnetIds": ["subnet-a"], "taints": [TAINT, LEAVING]}),
        alone(
            EKS,
            of_types("g5.xlarge", "g5.4xlarge") | {"subnetIds": ["subnet-a"]},
            config={"minTypes": 1, "minZones": 1, "maxSpread": 4},
        ),
        alone(OKE, V100),
        alone(KARPENTER, NODE_POOL),
        alone(ASG, GROUP),
    ),
    violating=(
        alone(EKS, of_types("g5.xlarge") | {"taints": [TAINT]}, (f"{few_types('instanceTypes')} {NVIDIA}",)),
        alone(EKS, of_types("g5.xlarge"), (f"{few_types('instanceTypes')} {NVIDIA}",)),
        alone(EKS, changed(SPOT, "subnetIds", ["subnet-a"]), (f"{few_subnets('1 subnet')} {NVIDIA}",)),
        alone(
            EKS,
            of_types("g5.xlarge", "g5.12xlarge"),
            (f"{other_gpus('instanceTypes[1]', 'g5.12xlarge', 'g5.xlarge')} {NVIDIA}",),
        ),
        alone(
            OKE,
            changed(V100, *PLACES, [V100["nodeConfigDetails"]["placementConfigs"][0]]),
            (f"{few_zones('nodeConfigDetails.placementConfigs', '1 availability domain')} {OKE_SIGN}",),
        ),
        alone(
            KARPENTER,
            with_values(1, "g5.xlarge"),
            (f"{few_types('spec.template.spec.requirements[node.kubernetes.io/instance-type]')} {KARPENTER_SIGN}",),
        ),
        alone(
            ASG,
            changed(GROUP, *OVERRIDES, [{"instanceType": "g5.xlarge"}]),
            (f"{few_types('mixedInstancesPolicy.launchTemplate.overrides')} {ASG_SIGN}",),
        ),
    ),
)
