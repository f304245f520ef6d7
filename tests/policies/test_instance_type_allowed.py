"""instance-type-allowed: every kind that buys machines, traps of prefixes, and what leaves the choice open."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.hardware import machines
from policies.rules.instance_type_allowed import RULE
from policies.rules.kinds import (
    EC2_INSTANCE,
    EKS_CLUSTER,
    EKS_COMPONENT,
    LAUNCH_TEMPLATE,
    OCI_INSTANCE,
    OCI_INSTANCE_CONFIGURATION,
    SPOT_REQUEST,
)
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, changed, config_of, default, judge, said, spelled
from tests.policies.pool_fixtures import (
    ASG,
    EKS,
    FLEET,
    GROUP,
    KARPENTER,
    LAUNCHER,
    NODE_POOL,
    OKE,
    OVERRIDES,
    RELEASE,
    REQUIREMENTS,
    RUNNER,
    SHAPES,
    SPOT,
    SYSTEM,
    TYPES,
    V100,
    scale_set,
    with_values,
)
from tests.policies.suite import Suite

DEFAULTS = default(RULE, "types")

FEW = {"types": ["g5.xlarge", "m6i.*"]}
FAMILY = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}
PATH = "spec.template.spec.requirements"
EC2_FLEET_PROPS = {
    "launchTemplateConfigs": [{"overrides": [{"instanceType": "g5.xlarge"}, {"instanceType": "g5.2xlarge"}]}],
    "targetCapacitySpecification": {"defaultTargetCapacityType": "spot", "totalTargetCapacity": 1},
}
CONFIGURATION = {"instanceDetails": {"launchDetails": {"shape": "VM.GPU.A10.1"}}}
OPEN = "attributes alone allow every type"


def fault(path: str, name: str, listed: str = "g5.xlarge, m6i.*") -> str:
    return f'{path}: "{name}" is not an allowed type; use one of {listed}, or add "{name}" to {config_of(RULE.id, "extraTypes")}'


DEFAULT = ", ".join(DEFAULTS[:8]) + ", …"


def only(*types: str) -> dict[str, Any]:
    return {"types": list(types)}


@pytest.mark.parametrize(
    "name", ["g5g.xlarge", "g5.xlarge.extra", "g6f.xlarge", "ag5.xlarge", "g5", "G5.xlarge", "gr6.4xlarge", "g5xlarge"]
)
def test_a_prefix_is_not_a_family(name: str) -> None:
    props = changed(SPOT, "instanceTypes", [name])
    allowed = only("g5.xlarge", "g6.*", "g5.2*")
    (message,) = judge(RULE, EKS, props, allowed).messages
    assert message == fault("instanceTypes[0]", name, "g5.xlarge, g6.*, g5.2*")


@pytest.mark.parametrize("name", ["g5.xlarge", "g5.48xlarge"])
def test_a_star_stands_for_any_size(name: str) -> None:
    assert judge(RULE, EKS, changed(SPOT, "instanceTypes", [name]), only("g5.*")) == CLEAN


def test_every_type_of_a_list_is_judged() -> None:
    props = changed(SPOT, "instanceTypes", ["g5.xlarge", "p4d.24xlarge", "p5.48xlarge"])
    assert judge(RULE, EKS, props, FEW) == said(
        fault("instanceTypes[1]", "p4d.24xlarge"), fault("instanceTypes[2]", "p5.48xlarge")
    )


def test_a_group_without_types_takes_what_eks_takes() -> None:
    props = changed(SYSTEM, "instanceTypes", REMOVE)
    assert judge(RULE, EKS, props, FEW) == said(fault("instanceTypes is not set, so EKS's default", "t3.medium"))
    assert judge(RULE, EKS, props | {"launchTemplate": {"id": "lt-1"}}, FEW) == CLEAN, "the template's type is judged there"


@pytest.mark.parametrize("token", [EC2_INSTANCE, SPOT_REQUEST, LAUNCH_TEMPLATE])
def test_instances_and_templates_have_one_type(token: str) -> None:
    assert judge(RULE, token, {"instanceType": "p5.48xlarge"}, FEW) == said(fault("instanceType", "p5.48xlarge"))
    assert judge(RULE, token, {"instanceType": "g5.xlarge"}, FEW) == CLEAN
    assert judge(RULE, token, {"namePrefix": "gpu"}, FEW) == CLEAN


@pytest.mark.parametrize(
    ("token", "where", "path"),
    [
        (LAUNCH_TEMPLATE, (), ""),
        (ASG, OVERRIDES, "mixedInstancesPolicy.launchTemplate.overrides[0]."),
        (FLEET, ("launchTemplateConfigs", 0, "overrides"), "launchTemplateConfigs[0].overrides[0]."),
    ],
)
def test_instance_requirements_list_allowed_types(token: str, where: tuple[Any, ...], path: str) -> None:
    base: dict[str, Any] = {LAUNCH_TEMPLATE: {}, ASG: GROUP, FLEET: EC2_FLEET_PROPS}[token]

    def props(**requirements: Any) -> dict[str, Any]:
        block = {"instanceRequirements": {"vcpuCount": {"min": 4}} | requirements}
        return changed(base, *where, [block]) if where else block

    assert judge(RULE, token, props(), FEW) == said(
        f"{path}instanceRequirements.allowedInstanceTypes is not set: {OPEN}; write g5.xlarge, m6i.*"
    )
    assert judge(RULE, token, props(allowedInstanceTypes=["g5.xlarge", "m6i.*"]), FEW) == CLEAN
    found = judge(RULE, token, props(allowedInstanceTypes=["g5.*"]), FEW)
    assert found == said(fault(f"{path}instanceRequirements.allowedInstanceTypes[0]", "g5.*")), "more than the one size"


@pytest.mark.parametrize(
    ("requirements", "faults"),
    [
        ([TYPES], 0),
        ([FAMILY], 0),
        ([FAMILY | {"values": ["g5", "g5g"]}], 1),
        ([FAMILY | {"operator": "NotIn"}], 1),
        ([FAMILY | {"values": []}], 1),
        ([], 1),
        ([TYPES | {"values": ["p4d.24xlarge"]}, FAMILY], 0),
        ([TYPES | {"values": ["p4d.24xlarge", "p5.48xlarge"]}], 2),
    ],
)
def test_a_karpenter_pool_has_one_requirement_of_allowed_types_alone(requirements: list[Any], faults: int) -> None:
    props = changed(NODE_POOL, *REQUIREMENTS, requirements)
    assert len(judge(RULE, KARPENTER, props, only("g5.*")).messages) == faults


def test_a_family_is_allowed_where_all_its_sizes_are() -> None:
    props = changed(NODE_POOL, *REQUIREMENTS, [FAMILY])
    assert judge(RULE, KARPENTER, props, only("g5.xlarge", "g5.2xlarge")) == said(
        fault(f"{PATH}[0].values[0]", "g5.*", "g5.xlarge, g5.2xlarge")
    )


def test_a_launcher_is_judged_by_each_of_its_shapes() -> None:
    props = changed(LAUNCHER, *SHAPES, "VM.GPU.A10.1,BM.GPU.A10.4")
    path = 'values.template.metadata.annotations["gpu-ci/machine-shapes"]'
    assert judge(RULE, RELEASE, props) == said(fault(path, "BM.GPU.A10.4", DEFAULT))
    assert judge(RULE, RELEASE, scale_set(RUNNER)) == CLEAN


def test_options_of_a_configuration_are_judged_each() -> None:
    props = {"instanceDetails": {"options": [{"launchDetails": {"shape": "BM.GPU.H100.8"}}, CONFIGURATION["instanceDetails"]]}}
    assert judge(RULE, OCI_INSTANCE_CONFIGURATION, props) == said(
        fault("instanceDetails.options[0].launchDetails.shape", "BM.GPU.H100.8", DEFAULT)
    )


def test_the_default_is_of_types_that_there_are_with_one_gpu_or_none() -> None:
    for name in DEFAULTS:
        found = [each for each in machines() if name in (each.name, f"{each.name.partition('.')[0]}.*")]
        assert found or name.startswith("VM.Standard."), name
        assert all(machine.gpus <= 1 for machine in found), name


def test_what_is_read_must_be_known() -> None:
    assert judge(RULE, EKS, SPOT, unknown=("instanceTypes", 1)) == said(unknown="instanceTypes[1]")
    hidden = (*REQUIREMENTS, 0)
    assert judge(RULE, KARPENTER, NODE_POOL, unknown=hidden) == CLEAN, "the other one narrows the pool enough"
    bad = with_values(1, "p4d.24xlarge")
    assert judge(RULE, KARPENTER, bad, unknown=hidden) == said(unknown=spelled(hidden)), "it may narrow the pool"


WHOLE = {"skipDefaultNodeGroup": True}
CHOSEN = "{} is true: EKS then starts machines that no list bounds; write false"

SUITE = Suite(
    RULE,
    passing=(
        Case(EKS_COMPONENT, WHOLE),
        Case(EKS_CLUSTER, {"computeConfig": {"enabled": False}}),
        Case(EKS, SPOT),
        Case(EKS, SYSTEM),
        Case(EKS, changed(SPOT, "instanceTypes", ["p4d.24xlarge"]), config=only("p4d.24xlarge")),
        Case(EKS, changed(SPOT, "instanceTypes", ["p4d.24xlarge"]), config={"extraTypes": ["p4d.24xlarge"]}),
        Case(OKE, V100),
        Case(KARPENTER, NODE_POOL),
        Case(ASG, GROUP),
        Case(FLEET, EC2_FLEET_PROPS),
        Case(EC2_INSTANCE, {"instanceType": "g5.xlarge"}),
        Case(SPOT_REQUEST, {"instanceType": "g5.xlarge"}),
        Case(LAUNCH_TEMPLATE, {"namePrefix": "gpu"}),
        Case(LAUNCH_TEMPLATE, {"instanceType": "m6i.large"}),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}),
        Case(OCI_INSTANCE_CONFIGURATION, CONFIGURATION),
        Case(RELEASE, LAUNCHER),
    ),
    violating=(
        Case(EKS_COMPONENT, WHOLE | {"autoMode": {"enabled": True}}, (CHOSEN.format("autoMode.enabled"),)),
        Case(EKS_CLUSTER, {"computeConfig": {"enabled": True}}, (CHOSEN.format("computeConfig.enabled"),)),
        Case(
            EKS_COMPONENT,
            {"name": "usw2"},
            ("skipDefaultNodeGroup is not true: the component then makes nodes of its own; write true",),
        ),
        Case(EKS, changed(SPOT, "instanceTypes", 0, "p4d.24xlarge"), (fault("instanceTypes[0]", "p4d.24xlarge", DEFAULT),)),
        Case(EKS, changed(SPOT, "instanceTypes", ["g5.2xlarge"]), (fault("instanceTypes[0]", "g5.2xlarge"),), config=FEW),
        Case(OKE, changed(V100, "nodeShape", "BM.GPU4.8"), (fault("nodeShape", "BM.GPU4.8", DEFAULT),)),
        Case(KARPENTER, with_values(1, "p4d.24xlarge"), (fault(f"{PATH}[1].values[0]", "p4d.24xlarge", DEFAULT),)),
        Case(
            KARPENTER,
            changed(NODE_POOL, *REQUIREMENTS, []),
            (
                f"{PATH}: none lists types, so Karpenter may buy any; add {{key: node.kubernetes.io/instance-type, operator: In, "
                f"values: [{DEFAULT}]}}",
            ),
        ),
        Case(
            ASG,
            changed(GROUP, *OVERRIDES, 0, "instanceType", "g5g.xlarge"),
            (fault("mixedInstancesPolicy.launchTemplate.overrides[0].instanceType", "g5g.xlarge", DEFAULT),),
        ),
        Case(
            FLEET,
            changed(EC2_FLEET_PROPS, "launchTemplateConfigs", 0, "overrides", 1, "instanceType", "g6f.xlarge"),
            (fault("launchTemplateConfigs[0].overrides[1].instanceType", "g6f.xlarge", DEFAULT),),
        ),
        Case(EC2_INSTANCE, {"instanceType": "p5.48xlarge"}, (fault("instanceType", "p5.48xlarge", DEFAULT),)),
        Case(SPOT_REQUEST, {"instanceType": "p5.48xlarge"}, (fault("instanceType", "p5.48xlarge", DEFAULT),)),
        Case(
            LAUNCH_TEMPLATE,
            {"instanceRequirements": {"vcpuCount": {"min": 4}}},
            (f"instanceRequirements.allowedInstanceTypes is not set: {OPEN}; write {DEFAULT}",),
        ),
        Case(OCI_INSTANCE, {"shape": "BM.GPU.H100.8"}, (fault("shape", "BM.GPU.H100.8", DEFAULT),)),
        Case(
            OCI_INSTANCE_CONFIGURATION,
            {"instanceDetails": {"launchDetails": {"shape": "BM.GPU.H100.8"}}},
            (fault("instanceDetails.launchDetails.shape", "BM.GPU.H100.8", DEFAULT),),
        ),
        Case(
            RELEASE,
            changed(LAUNCHER, *SHAPES, "VM.GPU.A10.2"),
            (fault('values.template.metadata.annotations["gpu-ci/machine-shapes"]', "VM.GPU.A10.2", DEFAULT),),
        ),
    ),
)


def test_extra_types_add_to_the_list() -> None:
    extra = judge(RULE, "aws:ec2/instance:Instance", {"instanceType": "p5.48xlarge"}, {"extraTypes": ["p5.48xlarge"]})
    assert extra.messages == ()
    assert judge(RULE, "aws:ec2/instance:Instance", {"instanceType": "g5.xlarge"}, {"extraTypes": ["p5.48xlarge"]}).messages == ()
