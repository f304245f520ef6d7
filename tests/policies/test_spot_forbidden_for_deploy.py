"""spot-forbidden-for-deploy: pools and runner sets with a role whose jobs must not be interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import machine_annotations
from policies.rules.kinds import CONFIG_MAP
from policies.rules.spot_forbidden_for_deploy import RULE
from tests.policies.cases import Case
from tests.policies.container_fixtures import JOB
from tests.policies.harness import CLEAN, changed, judge, said
from tests.policies.pool_fixtures import (
    ASG,
    EKS,
    GROUP,
    KARPENTER,
    NODE_POOL,
    OKE,
    RELEASE,
    RELEASES,
    REQUIREMENTS,
    RESERVED,
    RUNNER,
    SPOT,
    V100,
    V100_RELEASES,
    scale_set,
    with_values,
)
from tests.policies.suite import Suite, templates

ROLE = "gpu-ci/role"
INTERRUPTED = "its jobs must not be interrupted"
EKS_FAULT = f"capacityType lets the pool buy spot, and its role is release: {INTERRUPTED}; write ON_DEMAND"
OKE_FAULT = (
    f"nodeConfigDetails.placementConfigs lets the pool buy spot, and its role is release: {INTERRUPTED}; "
    "remove preemptibleNodeConfig"
)
KARPENTER_FAULT = (
    f"spec.template.spec.requirements lets the pool buy spot, and its role is release: {INTERRUPTED}; "
    "write karpenter.sh/capacity-type In [on-demand]"
)
ASG_FAULT = (
    f"mixedInstancesPolicy.instancesDistribution lets the pool buy spot, and its role is release: {INTERRUPTED}; "
    "write onDemandPercentageAboveBaseCapacity 100"
)
ASG_RELEASES = GROUP | {"tags": [{"key": f"k8s.io/cluster-autoscaler/node-template/label/{ROLE}", "value": "release"}]}
SPOT_RELEASES = changed(SPOT, "labels", ROLE, "release")
V100_SPOT_RELEASES = changed(V100, "initialNodeLabels", 1, "value", "release")
LABELS = ("spec", "template", "metadata", "labels", ROLE)
KARPENTER_RELEASES = changed(NODE_POOL, *LABELS, "release")

SELECTED = scale_set(RUNNER | {"nodeSelector": {ROLE: "release", "gpu-ci/capacity": "spot"}})
SELECTED_FAULT = (
    "values.template.spec.nodeSelector[gpu-ci/capacity] is spot, and the role release "
    f"(values.template.spec.nodeSelector[gpu-ci/role]): {INTERRUPTED}; send them to on-demand or reserved machines"
)


def launcher(capacity: str, **annotations: str) -> dict[str, Any]:
    told = machine_annotations(shapes=["VM.GPU3.1"], capacity=capacity, disk_gb=200, regions=["us-ashburn-1"])
    return scale_set({"containers": [{"name": "runner"}]}, told | annotations)


@pytest.mark.parametrize("capacity", ["ON_DEMAND", None, "CAPACITY_BLOCK"])
def test_a_release_group_that_cannot_be_taken_away_passes(capacity: Any) -> None:
    assert judge(RULE, EKS, changed(SPOT_RELEASES, "capacityType", capacity)) == CLEAN


@pytest.mark.parametrize("role", ["burst", "", None, "Release"])
def test_other_roles_may_be_on_spot(role: Any) -> None:
    assert judge(RULE, EKS, changed(SPOT, "labels", ROLE, role)) == CLEAN


def test_deploying_is_a_role_like_releasing() -> None:
    assert judge(RULE, EKS, changed(SPOT, "labels", ROLE, "deploy")) == said(EKS_FAULT.replace("release", "deploy"))


def test_the_roles_are_configurable() -> None:
    assert judge(RULE, EKS, SPOT_RELEASES, {"roles": ["deploy"]}) == CLEAN
    assert judge(RULE, EKS, SPOT, {"roles": ["burst"]}) == said(EKS_FAULT.replace("release", "burst"))


def test_one_preemptible_placement_is_enough() -> None:
    places = [{"availabilityDomain": "AD-1"}, V100["nodeConfigDetails"]["placementConfigs"][1]]
    props = changed(V100_SPOT_RELEASES, "nodeConfigDetails", "placementConfigs", places)
    assert judge(RULE, OKE, props) == said(OKE_FAULT)


@pytest.mark.parametrize(
    ("operator", "values", "faults"),
    [
        ("In", ["on-demand"], 0),
        ("In", ["reserved", "on-demand"], 0),
        ("In", ["on-demand", "spot"], 1),
        ("NotIn", ["spot"], 0),
        ("NotIn", ["on-demand"], 1),
        ("Exists", [], 1),
    ],
)
def test_a_karpenter_pool_that_may_use_spot_does(operator: str, values: list[str], faults: int) -> None:
    props = changed(KARPENTER_RELEASES, *REQUIREMENTS, 0, "values", values)
    assert len(judge(RULE, KARPENTER, changed(props, *REQUIREMENTS, 0, "operator", operator)).messages) == faults


def test_a_karpenter_pool_without_the_requirement_buys_in_every_way() -> None:
    assert judge(RULE, KARPENTER, changed(KARPENTER_RELEASES, *REQUIREMENTS, [])) == said(KARPENTER_FAULT)


def test_a_runner_pod_says_its_role_and_its_capacity_by_selector() -> None:
    assert judge(RULE, RELEASE, SELECTED) == said(SELECTED_FAULT)
    for key, value in (("gpu-ci/role", "burst"), ("gpu-ci/capacity", "on-demand")):
        assert judge(RULE, RELEASE, changed(SELECTED, "values", "template", "spec", "nodeSelector", key, value)) == CLEAN


def test_a_launcher_says_what_it_boots_by_annotation() -> None:
    path = "values.template.metadata.annotations"
    assert judge(RULE, RELEASE, launcher("spot", **{ROLE: "release"})) == said(
        f"{path}[gpu-ci/machine-capacity] is spot, and the role release ({path}[gpu-ci/role]): {INTERRUPTED}; send them to "
        "on-demand or reserved machines"
    )
    assert judge(RULE, RELEASE, launcher("on-demand", **{ROLE: "release"})) == CLEAN
    assert judge(RULE, RELEASE, launcher("spot")) == CLEAN, "a launcher without a role is not a release"


def test_another_chart_is_not_read() -> None:
    assert judge(RULE, RELEASE, SELECTED | {"chart": "nvidia-device-plugin"}) == CLEAN


def test_what_decides_must_be_known_and_nothing_else() -> None:
    assert judge(RULE, EKS, SPOT_RELEASES, unknown=("labels", ROLE)) == said(unknown=f"labels.{ROLE}")
    assert judge(RULE, EKS, RELEASES, unknown=("labels", ROLE)) == CLEAN
    assert judge(RULE, EKS, SPOT_RELEASES, unknown=("capacityType",)) == said(unknown="capacityType")
    assert judge(RULE, EKS, SPOT, unknown=("capacityType",)) == CLEAN
    where = ("values", "template", "spec", "nodeSelector", ROLE)
    assert judge(RULE, RELEASE, SELECTED, unknown=where) == said(unknown=".".join(where))
    selector = where[:-1]
    assert judge(RULE, RELEASE, SELECTED, unknown=selector) == said(unknown=".".join(selector))


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS, SPOT),
        Case(EKS, RELEASES),
        Case(EKS, RESERVED),
        Case(EKS, SPOT_RELEASES, config={"roles": ["deploy"]}),
        Case(ASG, GROUP),
        Case(ASG, ASG_RELEASES | {"mixedInstancesPolicy": {}}),
        Case(OKE, V100),
        Case(OKE, V100_RELEASES),
        Case(KARPENTER, NODE_POOL),
        Case(KARPENTER, changed(with_values(0, "on-demand"), *LABELS, "release")),
        Case(RELEASE, scale_set(RUNNER)),
        Case(RELEASE, launcher("on-demand", **{ROLE: "release"})),
        Case(CONFIG_MAP, templates(JOB)),
    ),
    violating=(
        Case(EKS, SPOT_RELEASES, (EKS_FAULT,)),
        Case(ASG, ASG_RELEASES, (ASG_FAULT,)),
        Case(OKE, V100_SPOT_RELEASES, (OKE_FAULT,)),
        Case(KARPENTER, KARPENTER_RELEASES, (KARPENTER_FAULT,)),
        Case(RELEASE, SELECTED, (SELECTED_FAULT,)),
        Case(
            CONFIG_MAP,
            templates(JOB | {"nodeSelector": {ROLE: "release", "gpu-ci/capacity": "spot"}}),
            (SELECTED_FAULT.replace("values.template", 'data["job.json"]'),),
        ),
        Case(EKS, SPOT, (EKS_FAULT.replace("release", "burst"),), config={"roles": ["burst"]}),
    ),
)
