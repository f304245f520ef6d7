"""spot-required-nonprod: each clause broken once, each kind of pool, and the pools that it leaves alone."""

from __future__ import annotations

import re
from typing import Any, get_args

import botocore.session
import pytest

from components.eks.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs
from fleet.facts.errors import InputError
from fleet.facts.hardware import PREPAID, machines, preemptible
from fleet.settings.pool import Capacity, Role
from gpu_ci.offline.judge import configure, judge as judge_recording
from policies.rules.pools import machine_sign, sold_as_spot
from policies.rules.spot_required_nonprod import RULE
from tests.components.recorded import build_alone, of_type
from tests.day import AS_OF
from tests.policies.cases import Case
from tests.policies.fixtures import (
    A10_POOL_PROPS,
    KARPENTER_POOL,
    KARPENTER_POOL_PROPS,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    NODE_GROUP_PROPS,
    OKE_POOL,
    OKE_POOL_PROPS,
    OKE_RESERVED_PROPS,
    RESERVED_GROUP_PROPS,
    SYSTEM_GROUP_PROPS,
)
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, changed, judge, said, spelled
from tests.policies.pool_fixtures import ASG, GROUP
from tests.policies.suite import Suite

ROLE = "gpu-ci/role"
ROLE_MEND = (
    "or, if its jobs must not be interrupted, write release as Pulumi.staging.yaml: gpu-ci:clusters.<cluster>.pools.<pool>.role"
)
NO_ROLE_MEND = f"or label it {ROLE}=release: without a {ROLE} label it is judged as burst"
NVIDIA = '(amiType is "AL2023_x86_64_NVIDIA")'
ON_DEMAND = changed(NODE_GROUP_PROPS, "capacityType", "ON_DEMAND")
EKS_FAULT = 'capacityType is "ON_DEMAND": burst GPU pools must run on spot; write SPOT'
REQUIREMENTS = ("spec", "template", "spec", "requirements")
KARPENTER_SIGN = "(spec.template.spec.requirements[2].values[0]: g4dn.xlarge has 1 GPU)"
CAPACITY_LABEL = "gpu-ci/capacity"
OKE_SIGN = "(nodeShape: VM.GPU3.1 has 1 GPU)"
CAPACITY = {"key": "karpenter.sh/capacity-type"}
PLACES = ("nodeConfigDetails", "placementConfigs")


def test_an_eks_burst_pool_on_demand_is_refused() -> None:
    assert judge(RULE, NODE_GROUP, ON_DEMAND) == said(f"{EKS_FAULT}, {ROLE_MEND} {NVIDIA}")


def test_an_eks_pool_without_a_capacity_type_is_on_demand() -> None:
    fault = "capacityType is not set; EKS then buys ON_DEMAND: burst GPU pools must run on spot; write SPOT"
    props = changed(NODE_GROUP_PROPS, "capacityType", REMOVE)
    assert judge(RULE, NODE_GROUP, props) == said(f"{fault}, {ROLE_MEND} {NVIDIA}")


def test_of_the_capacity_types_of_eks_only_on_demand_is_refused() -> None:
    types = botocore.session.get_session().get_service_model("eks").shape_for("CapacityTypes").enum
    bad = [each for each in types if judge(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "capacityType", each)) != CLEAN]
    assert bad == ["ON_DEMAND"], "capacity blocks are bought ahead and cannot be spot"


def test_market_options_elsewhere_do_not_make_a_managed_group_spot() -> None:
    market = {"instanceMarketOptions": {"marketType": "spot"}}
    assert judge(RULE, NODE_GROUP, ON_DEMAND | market) == judge(RULE, NODE_GROUP, ON_DEMAND)


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        ({ROLE: "release"}, CLEAN),
        ({ROLE: "burst"}, said(f"{EKS_FAULT}, {ROLE_MEND} {NVIDIA}")),
        ({}, said(f"{EKS_FAULT}, {NO_ROLE_MEND} {NVIDIA}")),
        (None, said(f"{EKS_FAULT}, {NO_ROLE_MEND} {NVIDIA}")),
        ({ROLE: ""}, said(f"{EKS_FAULT}, {NO_ROLE_MEND} {NVIDIA}")),
    ],
)
def test_the_role_decides_and_a_pool_without_one_is_burst(labels: Any, verdict: Any) -> None:
    assert judge(RULE, NODE_GROUP, changed(ON_DEMAND, "labels", labels)) == verdict


def test_the_roles_are_configurable() -> None:
    release = changed(ON_DEMAND, "labels", ROLE, "release")
    both = {"roles": ["burst", "release"]}
    assert judge(RULE, NODE_GROUP, release, both) == said(f"{EKS_FAULT} {NVIDIA}"), "no role is free, so none is advised"
    bare = changed(ON_DEMAND, "labels", {})
    unnamed = f"without a {ROLE} label it is judged as burst, release"
    assert judge(RULE, NODE_GROUP, bare, both) == said(f"{EKS_FAULT}; {unnamed} {NVIDIA}")
    assert judge(RULE, NODE_GROUP, ON_DEMAND, {"roles": ["release"]}) == CLEAN


def test_a_role_that_no_pool_has_is_no_config() -> None:
    with pytest.raises(
        InputError, match=r"spot-required-nonprod\.roles\[0\]: must be one of \['burst', 'release', 'fallback'\]; got 'brust'"
    ):
        configure([RULE], {RULE.id: {"roles": ["brust"]}}, AS_OF)
    (configured,) = configure([RULE], {RULE.id: {"roles": ["release"]}}, AS_OF)
    assert configured.config["roles"] == ["release"]
    assert list(get_args(Role)) == RULE.config["roles"]["items"]["enum"], "the rule knows the roles of the stack file"


def test_what_the_message_advises_is_what_a_stack_file_takes() -> None:
    (message,) = judge(RULE, NODE_GROUP, ON_DEMAND).messages
    (role,) = re.findall(r"write (\w+) as Pulumi\.", message)
    assert role in get_args(Role)
    assert judge(RULE, NODE_GROUP, changed(ON_DEMAND, "labels", ROLE, role)) == CLEAN


def test_a_cpu_pool_may_be_on_demand() -> None:
    assert judge(RULE, NODE_GROUP, SYSTEM_GROUP_PROPS) == CLEAN
    assert judge(RULE, NODE_GROUP, changed(SYSTEM_GROUP_PROPS, "labels", {})) == CLEAN
    assert judge(RULE, OKE_POOL, OKE_POOL_PROPS | {"nodeShape": "VM.Standard.E5.Flex", "nodeConfigDetails": {}}) == CLEAN


# -- EKS: capacity that is reserved ------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", ["ON_DEMAND", None, REMOVE])
def test_a_group_in_a_capacity_reservation_is_on_demand_and_says_so_by_its_label(capacity: Any) -> None:
    assert judge(RULE, NODE_GROUP, changed(RESERVED_GROUP_PROPS, "capacityType", capacity)) == CLEAN


@pytest.mark.parametrize("value", ["on-demand", "spot", "", True, None, REMOVE])
def test_no_other_capacity_label_makes_an_on_demand_group_cheap(value: Any) -> None:
    props = changed(RESERVED_GROUP_PROPS, "labels", CAPACITY_LABEL, value)
    assert judge(RULE, NODE_GROUP, props) == said(f"{EKS_FAULT}, {ROLE_MEND} {NVIDIA}")


def test_a_capacity_type_that_eks_does_not_have_is_not_reserved() -> None:
    (message,) = judge(RULE, NODE_GROUP, changed(RESERVED_GROUP_PROPS, "capacityType", "SPOTTY")).messages
    assert message.startswith('capacityType is "SPOTTY"')


def test_the_label_has_to_be_known_where_it_decides_and_nowhere_else() -> None:
    path = ("labels", CAPACITY_LABEL)
    assert judge(RULE, NODE_GROUP, RESERVED_GROUP_PROPS, unknown=path) == said(unknown=".".join(path))
    spot = changed(RESERVED_GROUP_PROPS, "capacityType", "SPOT")
    assert judge(RULE, NODE_GROUP, spot, unknown=path) == CLEAN


@pytest.mark.parametrize(("capacity", "faults"), [("on-demand", 1), ("spot", 0), ("reserved", 0), ("capacity-block", 0)])
def test_our_own_node_groups_are_told_apart_and_the_label_tells_the_truth(capacity: str, faults: int) -> None:
    def program() -> None:
        args: GpuNodeGroupArgs = {
            "cluster_name": "gpu-ci-test-usw2",
            "kubernetes_version": "1.34",
            "node_role_arn": "arn:aws:iam::123456789012:role/node",
            "subnet_ids": {"us-west-2a": "subnet-01234567"},
            "instance_types": ["p4d.24xlarge"],
            "capacity_type": capacity,
            "max_nodes": 1,
        }
        if capacity in PREPAID:
            args["reservation"] = {"id": "cr-01234567", "zone": "us-west-2a", "count": 1}
        GpuNodeGroup("pool", args)

    recording = build_alone(program)
    verdicts = judge_recording(recording, configure([RULE], {}, AS_OF))
    assert [verdict.kind for verdict in verdicts] == ["violation"] * faults
    (group,) = of_type(recording, NODE_GROUP)
    (template,) = of_type(recording, LAUNCH_TEMPLATE)
    reserved = group.inputs["labels"][CAPACITY_LABEL] == "reserved"
    assert reserved is (capacity == "reserved")
    held = "capacityReservationSpecification" in template.inputs
    assert held is (reserved or group.inputs["capacityType"] == "CAPACITY_BLOCK"), "the rule believes the label"


def test_every_capacity_of_a_stack_file_was_judged_above() -> None:
    assert set(get_args(Capacity)) == {"on-demand", "spot", "reserved", "capacity-block"}


# -- OKE ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [each.name for each in machines("oci") if each.gpus])
def test_spot_is_demanded_of_the_shapes_that_oci_sells_so_and_of_no_other(shape: str) -> None:
    props = A10_POOL_PROPS | {"nodeShape": shape}
    demanded = bool(judge(RULE, OKE_POOL, props).messages)
    assert demanded is (shape in PREEMPTIBLE)
    assert demanded is sold_as_spot(shape)


PREEMPTIBLE = ("VM.GPU2.1", "VM.GPU3.1", "VM.GPU3.2", "VM.GPU3.4")
"""The GPU shapes among Oracle's supported shapes for preemptible instances: the series VM.GPU2 and VM.GPU3."""


@pytest.mark.parametrize(
    "shape", ["VM.GPU.A10.1", "VM.GPU.A10.2", "BM.GPU.A10.4", "VM.GPU.B900.1", "VM.Standard.E5.Flex", "", None]
)
@pytest.mark.parametrize("places", [[], [{"availabilityDomain": "AD-1"}], None])
def test_of_a_shape_that_oci_does_not_sell_as_preemptible_nothing_is_demanded(shape: Any, places: Any) -> None:
    props = changed(A10_POOL_PROPS | {"nodeShape": shape}, *PLACES, places)
    assert judge(RULE, OKE_POOL, props) == CLEAN


def test_what_is_sold_as_spot_is_the_hardware_tables_word() -> None:
    assert {each.name for each in machines() if sold_as_spot(each.name)} == {
        each.name for each in machines() if preemptible(each)
    }
    assert not sold_as_spot("VM.GPU.B900.1")
    assert machine_sign("VM.GPU.B900.1"), "a GPU shape for all that"


def test_reserved_capacity_of_oci_is_paid_for_already() -> None:
    assert judge(RULE, OKE_POOL, OKE_RESERVED_PROPS) == CLEAN
    mixed = changed(OKE_POOL_PROPS, *PLACES, 1, OKE_RESERVED_PROPS["nodeConfigDetails"]["placementConfigs"][0])
    assert judge(RULE, OKE_POOL, mixed) == CLEAN


@pytest.mark.parametrize("reservation", ["", None, REMOVE, [], True])
def test_no_reservation_id_is_no_reservation(reservation: Any) -> None:
    props = changed(OKE_RESERVED_PROPS, *PLACES, 0, "capacityReservationId", reservation)
    assert len(judge(RULE, OKE_POOL, props).messages) == 1


def test_the_capacity_label_of_an_oke_pool_is_not_asked_since_its_placements_tell() -> None:
    props = changed(OKE_POOL_PROPS, *PLACES, 1, "preemptibleNodeConfig", REMOVE)
    props = changed(props, "initialNodeLabels", 2, {"key": CAPACITY_LABEL, "value": "reserved"})
    assert len(judge(RULE, OKE_POOL, props).messages) == 1


def test_an_unknown_of_a_placement_matters_unless_the_other_way_to_pay_less_is_there() -> None:
    reserved = (*PLACES, 0, "capacityReservationId")
    assert judge(RULE, OKE_POOL, OKE_RESERVED_PROPS, unknown=reserved) == said(unknown=spelled(reserved))
    both = changed(OKE_RESERVED_PROPS, *PLACES, 0, "preemptibleNodeConfig", {"preemptionAction": {"type": "TERMINATE"}})
    assert judge(RULE, OKE_POOL, both, unknown=reserved) == CLEAN
    assert judge(RULE, OKE_POOL, both, unknown=(*PLACES, 0, "preemptibleNodeConfig")) == CLEAN


def test_an_unknown_shape_of_a_pool_that_is_not_preemptible_is_undeterminable() -> None:
    assert judge(RULE, OKE_POOL, A10_POOL_PROPS, unknown=("nodeShape",)) == said(unknown="nodeShape")
    assert judge(RULE, OKE_POOL, OKE_POOL_PROPS, unknown=("nodeShape",)) == CLEAN, "preemptible whatever the shape"
    release = changed(A10_POOL_PROPS, "initialNodeLabels", 1, "value", "release")
    assert judge(RULE, OKE_POOL, release, unknown=("nodeShape",)) == CLEAN, "a release pool whatever the shape"
    assert judge(RULE, OKE_POOL, A10_POOL_PROPS, unknown=PLACES) == CLEAN, "not sold as spot in any place"


def test_oci_machines_that_are_runners_are_not_judged() -> None:
    assert not [token for token in RULE.types if token.startswith("oci:Core/")], "instance pools cannot be preemptible"


def test_each_oke_placement_is_preemptible() -> None:
    props = changed(OKE_POOL_PROPS, *PLACES, 1, "preemptibleNodeConfig", REMOVE)
    path = "nodeConfigDetails.placementConfigs"
    mend = "burst GPU pools are preemptible"
    assert judge(RULE, OKE_POOL, props) == said(
        f"{path}[1].preemptibleNodeConfig is not set: {mend}; set it, {ROLE_MEND} {OKE_SIGN}"
    )
    assert len(judge(RULE, OKE_POOL, changed(props, *PLACES, 0, {})).messages) == 2, "one message for each placement"
    assert judge(RULE, OKE_POOL, changed(props, *PLACES, [])) == said(
        f"{path} has no entry: {mend}; write one with preemptibleNodeConfig, {ROLE_MEND} {OKE_SIGN}"
    )


def test_the_role_of_an_oke_pool_is_an_initial_node_label() -> None:
    props = changed(OKE_POOL_PROPS, *PLACES, [])
    assert judge(RULE, OKE_POOL, changed(props, "initialNodeLabels", 1, "value", "release")) == CLEAN
    (message,) = judge(RULE, OKE_POOL, changed(props, "initialNodeLabels", [])).messages
    assert NO_ROLE_MEND in message


@pytest.mark.parametrize(
    ("operator", "values", "given"),
    [
        ("In", ["spot", "on-demand"], "In [spot, on-demand]"),
        ("In", ["on-demand"], "In [on-demand]"),
        ("In", [], "In []"),
        ("NotIn", ["spot"], "NotIn [spot]"),
        ("Exists", [], "Exists []"),
    ],
)
def test_a_karpenter_pool_leaves_spot_alone(operator: str, values: list[str], given: str) -> None:
    props = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", values)
    props = changed(props, *REQUIREMENTS, 1, "operator", operator)
    assert judge(RULE, KARPENTER_POOL, props) == said(
        f"spec.template.spec.requirements[1]: karpenter.sh/capacity-type is not In [spot] ({given}): "
        f"burst GPU pools must run on spot; write In [spot], {ROLE_MEND} {KARPENTER_SIGN}"
    )


@pytest.mark.parametrize("values", [["spot"], ["reserved"], ["spot", "reserved"]])
def test_karpenter_may_use_what_is_reserved_already(values: list[str]) -> None:
    assert judge(RULE, KARPENTER_POOL, changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", values)) == CLEAN


def test_a_karpenter_pool_without_a_capacity_requirement_is_refused() -> None:
    props = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, REMOVE)
    sign = KARPENTER_SIGN.replace("[2]", "[1]")
    assert judge(RULE, KARPENTER_POOL, props) == said(
        "spec.template.spec.requirements: none restricts karpenter.sh/capacity-type to spot, and burst GPU pools must run "
        f"on spot; add {{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}, {ROLE_MEND} {sign}"
    )


def test_the_role_of_a_karpenter_pool_is_a_template_label() -> None:
    props = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["on-demand"])
    assert judge(RULE, KARPENTER_POOL, changed(props, "spec", "template", "metadata", "labels", ROLE, "release")) == CLEAN
    (message,) = judge(RULE, KARPENTER_POOL, changed(props, "spec", "template", "metadata", REMOVE)).messages
    assert NO_ROLE_MEND in message


@pytest.mark.parametrize("path", [("capacityType",), ("labels",), ("labels", ROLE)])
def test_what_decides_on_an_on_demand_pool_must_be_known(path: tuple[str, ...]) -> None:
    assert judge(RULE, NODE_GROUP, ON_DEMAND, unknown=path) == said(unknown=".".join(path))


def test_unknown_types_without_another_sign_are_undeterminable() -> None:
    props = changed(changed(ON_DEMAND, "amiType", "CUSTOM"), "labels", {ROLE: "burst"})
    assert judge(RULE, NODE_GROUP, props, unknown=("instanceTypes",)) == said(unknown="instanceTypes")
    assert judge(RULE, NODE_GROUP, changed(props, "labels", ROLE, "release"), unknown=("instanceTypes",)) == CLEAN


@pytest.mark.parametrize("path", [("labels",), ("instanceTypes",), ("amiType",)])
def test_on_a_spot_pool_nothing_else_matters(path: tuple[str, ...]) -> None:
    assert judge(RULE, NODE_GROUP, NODE_GROUP_PROPS, unknown=path) == CLEAN


def test_a_known_bad_placement_is_reported_before_an_unknown_one_stops_the_rule() -> None:
    props = changed(OKE_POOL_PROPS, *PLACES, 0, {"availabilityDomain": "AD-1"})
    verdict = judge(RULE, OKE_POOL, props, unknown=(*PLACES, 1))
    assert len(verdict.messages) == 1
    assert verdict.unknown == "nodeConfigDetails.placementConfigs[1]"


def test_an_unknown_requirement_may_be_the_one_for_spot_unless_another_bars_it() -> None:
    open_ = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "on-demand"])
    assert judge(RULE, KARPENTER_POOL, open_, unknown=(*REQUIREMENTS, 0)) == said(unknown=f"{'.'.join(REQUIREMENTS)}[0]")
    barred = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["on-demand"])
    verdict = judge(RULE, KARPENTER_POOL, barred, unknown=(*REQUIREMENTS, 0))
    assert len(verdict.messages) == 1, "no further requirement allows spot again"
    assert verdict.unknown == f"{'.'.join(REQUIREMENTS)}[0]"


def test_only_a_list_without_spot_bars_it() -> None:
    unknown = f"{'.'.join(REQUIREMENTS)}[0]"
    others = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, {**CAPACITY, "operator": "NotIn", "values": ["on-demand"]})
    assert judge(RULE, KARPENTER_POOL, others, unknown=(*REQUIREMENTS, 0)) == said(unknown=unknown)
    half = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, {**CAPACITY, "operator": "In", "values": ["on-demand", UNKNOWN]})
    assert judge(RULE, KARPENTER_POOL, half, unknown=(*REQUIREMENTS, 0)) == said(unknown=unknown)


def test_a_karpenter_value_that_is_unknown_decides_only_among_cheap_ones() -> None:
    spot = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "spot"])
    assert judge(RULE, KARPENTER_POOL, spot, unknown=(*REQUIREMENTS, 1, "values", 1)).unknown
    mixed = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "on-demand"])
    assert len(judge(RULE, KARPENTER_POOL, mixed, unknown=(*REQUIREMENTS, 1, "values", 0)).messages) == 1


ASG_FAULT = (
    "mixedInstancesPolicy.instancesDistribution allows on-demand machines: burst GPU pools must run on spot; write "
    "onDemandBaseCapacity 0 and onDemandPercentageAboveBaseCapacity 0"
)
ASG_SIGN = "(mixedInstancesPolicy.launchTemplate.overrides[0].instanceType: g5.xlarge has 1 GPU)"
DISTRIBUTION = ("mixedInstancesPolicy", "instancesDistribution")
ROLE_TAG = f"k8s.io/cluster-autoscaler/node-template/label/{ROLE}"


@pytest.mark.parametrize(
    ("distribution", "passes"),
    [
        ({"onDemandPercentageAboveBaseCapacity": 0}, True),
        ({"onDemandPercentageAboveBaseCapacity": 0, "onDemandBaseCapacity": 0}, True),
        ({"onDemandPercentageAboveBaseCapacity": 0, "onDemandBaseCapacity": 1}, False),
        ({"onDemandPercentageAboveBaseCapacity": 50}, False),
        ({}, False),
    ],
)
def test_a_scaling_group_leaves_nothing_on_demand(distribution: dict[str, Any], passes: bool) -> None:
    assert (judge(RULE, ASG, changed(GROUP, *DISTRIBUTION, distribution)) == CLEAN) is passes


@pytest.mark.parametrize(("role", "passes"), [("release", True), ("burst", False)])
def test_a_scaling_group_has_the_role_that_the_autoscaler_is_told(role: str, passes: bool) -> None:
    tags = [{"key": ROLE_TAG, "value": role, "propagateAtLaunch": True}]
    assert (judge(RULE, ASG, changed(GROUP, *DISTRIBUTION, {}) | {"tags": tags}) == CLEAN) is passes


NO_SPOT = "spec.template.spec.requirements[1]: karpenter.sh/capacity-type is not In [spot] (In [on-demand])"
NOT_PREEMPTIBLE = (
    "nodeConfigDetails.placementConfigs[1].preemptibleNodeConfig is not set: burst GPU pools are preemptible; set it"
)
SUITE = Suite(
    RULE,
    passing=(
        Case(NODE_GROUP, NODE_GROUP_PROPS),
        Case(NODE_GROUP, SYSTEM_GROUP_PROPS),
        Case(NODE_GROUP, RESERVED_GROUP_PROPS),
        Case(NODE_GROUP, ON_DEMAND, config={"roles": ["release"]}),
        Case(OKE_POOL, OKE_POOL_PROPS),
        Case(OKE_POOL, A10_POOL_PROPS),
        Case(OKE_POOL, OKE_RESERVED_PROPS),
        Case(KARPENTER_POOL, KARPENTER_POOL_PROPS),
        Case(ASG, GROUP),
    ),
    violating=(
        Case(ASG, changed(GROUP, *DISTRIBUTION, {}), (f"{ASG_FAULT}, {NO_ROLE_MEND} {ASG_SIGN}",)),
        Case(NODE_GROUP, ON_DEMAND, (f"{EKS_FAULT}, {ROLE_MEND} {NVIDIA}",)),
        Case(
            NODE_GROUP,
            changed(ON_DEMAND, "labels", ROLE, "release"),
            (f"{EKS_FAULT} {NVIDIA}",),
            config={"roles": ["burst", "release"]},
        ),
        Case(
            OKE_POOL,
            changed(OKE_POOL_PROPS, *PLACES, 1, "preemptibleNodeConfig", {}),
            (f"{NOT_PREEMPTIBLE}, {ROLE_MEND} {OKE_SIGN}",),
        ),
        Case(
            KARPENTER_POOL,
            changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["on-demand"]),
            (f"{NO_SPOT}: burst GPU pools must run on spot; write In [spot], {ROLE_MEND} {KARPENTER_SIGN}",),
        ),
    ),
)
