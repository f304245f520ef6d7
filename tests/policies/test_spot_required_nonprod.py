"""spot-required-nonprod: each clause broken once, each kind of pool, and the pools that it leaves alone."""

from __future__ import annotations

import re
from typing import Any, get_args

import botocore.session
import pytest

from fleet.pool import Role
from offline.errors import InputError
from offline.judge import configure
from policies.rules.spot_required_nonprod import KNOWN_ROLES, RULE
from tests.policies.fixtures import (
    KARPENTER_POOL,
    KARPENTER_POOL_PROPS,
    NODE_GROUP,
    NODE_GROUP_PROPS,
    OKE_POOL,
    OKE_POOL_PROPS,
    SYSTEM_GROUP_PROPS,
)
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, changed, judge, said

ROLE = "gpu-ci/role"
ROLE_MEND = "or, if its jobs must not be interrupted, write `role: release` for the pool in the stack file"
NO_ROLE_MEND = f"or label it {ROLE}=release: without a {ROLE} label it is judged as burst"
NVIDIA = '(amiType is "AL2023_x86_64_NVIDIA")'
ON_DEMAND = changed(NODE_GROUP_PROPS, "capacityType", "ON_DEMAND")
EKS_FAULT = 'capacityType is "ON_DEMAND": burst GPU pools run on spot; write SPOT'
REQUIREMENTS = ("spec", "template", "spec", "requirements")
KARPENTER_SIGN = "(spec.template.spec.requirements[2].values[0]: g4dn.xlarge has 1 GPU)"
OKE_SIGN = "(nodeShape: VM.GPU.A10.1 has 1 GPU)"
CAPACITY = {"key": "karpenter.sh/capacity-type"}
PLACES = ("nodeConfigDetails", "placementConfigs")


def test_an_eks_burst_pool_on_demand_is_refused() -> None:
    assert judge(RULE, NODE_GROUP, ON_DEMAND) == said(f"{EKS_FAULT}, {ROLE_MEND} {NVIDIA}")


def test_an_eks_pool_without_a_capacity_type_is_on_demand() -> None:
    fault = "capacityType is not set; EKS then buys ON_DEMAND: burst GPU pools run on spot; write SPOT"
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
        InputError, match=r"spot-required-nonprod\.roles\[0\]: must be one of \['burst', 'release'\]; got 'brust'"
    ):
        configure([RULE], {RULE.id: {"roles": ["brust"]}})
    (configured,) = configure([RULE], {RULE.id: {"roles": ["release"]}})
    assert configured.config["roles"] == ["release"]
    assert get_args(Role) == KNOWN_ROLES, "the rule knows the roles of the stack file"


def test_what_the_message_advises_is_what_a_stack_file_takes() -> None:
    (message,) = judge(RULE, NODE_GROUP, ON_DEMAND).messages
    (role,) = re.findall(r"`role: (\w+)`", message)
    assert role in get_args(Role)
    assert judge(RULE, NODE_GROUP, changed(ON_DEMAND, "labels", ROLE, role)) == CLEAN


def test_a_cpu_pool_may_be_on_demand() -> None:
    assert judge(RULE, NODE_GROUP, SYSTEM_GROUP_PROPS) == CLEAN
    assert judge(RULE, NODE_GROUP, changed(SYSTEM_GROUP_PROPS, "labels", {})) == CLEAN
    assert judge(RULE, OKE_POOL, OKE_POOL_PROPS | {"nodeShape": "VM.Standard.E5.Flex", "nodeConfigDetails": {}}) == CLEAN


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
        f"burst GPU pools run on spot; write that, {ROLE_MEND} {KARPENTER_SIGN}"
    )


@pytest.mark.parametrize("values", [["spot"], ["reserved"], ["spot", "reserved"]])
def test_karpenter_may_use_what_is_reserved_already(values: list[str]) -> None:
    assert judge(RULE, KARPENTER_POOL, changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", values)) == CLEAN


def test_a_karpenter_pool_without_a_capacity_requirement_is_refused() -> None:
    props = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, REMOVE)
    sign = KARPENTER_SIGN.replace("[2]", "[1]")
    assert judge(RULE, KARPENTER_POOL, props) == said(
        "spec.template.spec.requirements: none leaves karpenter.sh/capacity-type to spot, and burst GPU pools run on spot; "
        f"add {{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}, {ROLE_MEND} {sign}"
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
    assert verdict.unknown == "nodeConfigDetails.placementConfigs.1"


def test_an_unknown_requirement_may_be_the_one_for_spot_unless_another_bars_it() -> None:
    open_ = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "on-demand"])
    assert judge(RULE, KARPENTER_POOL, open_, unknown=(*REQUIREMENTS, 0)) == said(unknown=".".join((*REQUIREMENTS, "0")))
    barred = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["on-demand"])
    verdict = judge(RULE, KARPENTER_POOL, barred, unknown=(*REQUIREMENTS, 0))
    assert len(verdict.messages) == 1, "no further requirement brings spot back"
    assert verdict.unknown == ".".join((*REQUIREMENTS, "0"))


def test_only_a_list_without_spot_bars_it() -> None:
    unknown = ".".join((*REQUIREMENTS, "0"))
    others = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, {**CAPACITY, "operator": "NotIn", "values": ["on-demand"]})
    assert judge(RULE, KARPENTER_POOL, others, unknown=(*REQUIREMENTS, 0)) == said(unknown=unknown)
    half = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, {**CAPACITY, "operator": "In", "values": ["on-demand", UNKNOWN]})
    assert judge(RULE, KARPENTER_POOL, half, unknown=(*REQUIREMENTS, 0)) == said(unknown=unknown)


def test_a_karpenter_value_that_is_unknown_decides_only_among_cheap_ones() -> None:
    spot = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "spot"])
    assert judge(RULE, KARPENTER_POOL, spot, unknown=(*REQUIREMENTS, 1, "values", 1)).unknown
    mixed = changed(KARPENTER_POOL_PROPS, *REQUIREMENTS, 1, "values", ["spot", "on-demand"])
    assert len(judge(RULE, KARPENTER_POOL, mixed, unknown=(*REQUIREMENTS, 1, "values", 0)).messages) == 1
