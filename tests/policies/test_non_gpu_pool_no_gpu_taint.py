"""non-gpu-pool-no-gpu-taint: what is sure to have no GPU, and what is left alone because it may have one."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from policies.rules.non_gpu_pool_no_gpu_taint import RULE
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said
from tests.policies.pool_fixtures import (
    EKS,
    GPU,
    K8S_TAINT,
    KARPENTER,
    NODE_POOL,
    OKE,
    OKE_SYSTEM,
    REQUIREMENTS,
    SPOT,
    SYSTEM,
    TAINT,
    TYPES,
)
from tests.policies.suite import Suite

TAINTED = SYSTEM | {"taints": [TAINT]}
CPU_POOL = changed(NODE_POOL, *REQUIREMENTS, 1, "values", ["m6i.large", "c7i.large"])
PATH = "spec.template.spec"


def fault(path: str, why: str, key: str = GPU) -> str:
    return (
        f"{path} has the key {key}: {why}: no machine has a GPU, but the taint is for pools with GPUs: it keeps off every "
        "pod without the toleration; remove the taint, or give the pool a GPU type"
    )


USER_DATA = "nodeMetadata.user_data (--register-with-taints)"
OKE_FAULT = fault(USER_DATA, 'nodeShape ["VM.Standard.E5.Flex"]')
EKS_FAULT = fault("taints[0]", 'instanceTypes ["m6i.large"]')
KARPENTER_FAULT = fault(f"{PATH}.taints[0]", f'{PATH}.requirements[1].values ["m6i.large", "c7i.large"]')


@pytest.mark.parametrize("effect", ["NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE", "NoSchedule", None])
def test_a_cpu_group_does_not_carry_the_taint_with_any_effect(effect: Any) -> None:
    assert judge(RULE, EKS, changed(TAINTED, "taints", 0, "effect", effect)) == said(EKS_FAULT)


def test_every_taint_of_the_key_is_told_and_no_other() -> None:
    taints = [{"key": "team", "effect": "NO_SCHEDULE"}, TAINT, TAINT | {"effect": "NO_EXECUTE"}]
    found = judge(RULE, EKS, changed(TAINTED, "taints", taints))
    assert [message.partition(" ")[0] for message in found.messages] == ["taints[1]", "taints[2]"]


def test_a_group_without_types_and_template_is_of_the_type_that_eks_takes() -> None:
    props = changed(TAINTED, "instanceTypes", REMOVE)
    assert judge(RULE, EKS, props) == said(fault("taints[0]", 'instanceTypes is not set, so EKS\'s default ["t3.medium"]'))
    assert judge(RULE, EKS, props | {"launchTemplate": {"id": "lt-1"}}) == CLEAN, "the template may choose a GPU type"


def user_data(script: str) -> dict[str, Any]:
    return OKE_SYSTEM | {"nodeMetadata": {"user_data": base64.b64encode(script.encode()).decode()}}


REGISTERED = user_data(
    'bash oke-init.sh --kubelet-extra-args "--register-with-taints=team=ci:NoSchedule,nvidia.com/gpu:NoExecute"'
)


@pytest.mark.parametrize(
    "script",
    [
        "kubelet --register-with-taints=nvidia.com/gpu=true:NoSchedule --v=2",
        "kubelet --register-with-taints nvidia.com/gpu=true:NoSchedule",
        "args: '--register-with-taints=a=b:NoSchedule,nvidia.com/gpu=:NoSchedule'",
        'echo "{\\"args\\": \\"--register-with-taints=nvidia.com/gpu:NoSchedule\\"}"',
    ],
)
def test_oke_nodes_carry_what_their_user_data_registers(script: str) -> None:
    assert judge(RULE, OKE, user_data(script)) == said(OKE_FAULT)


def test_user_data_may_be_compressed_and_may_say_nothing() -> None:
    packed = base64.b64encode(gzip.compress(b"kubelet --register-with-taints=nvidia.com/gpu=true:NoSchedule")).decode()
    assert judge(RULE, OKE, OKE_SYSTEM | {"nodeMetadata": {"user_data": packed}}) == said(OKE_FAULT)
    for script in (
        "#!/bin/bash",
        "# --register-with-taints=nvidia.com/gpu=true:NoSchedule",
        "kubelet --register-with-taints=,::",
    ):
        assert judge(RULE, OKE, user_data(script)) == CLEAN
    assert judge(RULE, OKE, REGISTERED | {"nodeShape": "VM.GPU.A10.1"}) == CLEAN, "a GPU shape may"


@pytest.mark.parametrize("types", [["g5.xlarge"], ["m6i.large", "g5.xlarge"], ["p9.48xlarge"]])
def test_one_gpu_type_is_enough_for_the_taint(types: list[str]) -> None:
    assert judge(RULE, EKS, changed(TAINTED, "instanceTypes", types)) == CLEAN


def test_many_types_are_cut_short() -> None:
    types = ["m5.large", "m6i.large", "m7i.large", "m7a.large"]
    (message,) = judge(RULE, EKS, changed(TAINTED, "instanceTypes", types)).messages
    assert '["m5.large", "m6i.large", "m7i.large", …]' in message


@pytest.mark.parametrize(
    ("requirement", "faults"),
    [
        ({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m"]}, 1),
        ({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "g"]}, 0),
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m6i"]}, 1),
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g5"]}, 0),
        ({"key": "karpenter.k8s.aws/instance-family", "operator": "NotIn", "values": ["m6i"]}, 0),
        ({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}, 0),
        (TYPES | {"values": []}, 0),
    ],
)
def test_a_karpenter_pool_is_without_gpus_where_one_requirement_leaves_none(requirement: dict[str, Any], faults: int) -> None:
    props = changed(NODE_POOL, *REQUIREMENTS, [requirement])
    assert len(judge(RULE, KARPENTER, props).messages) == faults


def test_requirements_are_joined_by_and() -> None:
    narrowed = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m"]}
    props = changed(NODE_POOL, *REQUIREMENTS, [TYPES, narrowed])
    assert len(judge(RULE, KARPENTER, props).messages) == 1


def test_the_key_is_configurable() -> None:
    sku = changed(TAINTED, "taints", 0, "key", "sku")
    assert judge(RULE, EKS, sku) == CLEAN
    assert judge(RULE, EKS, sku, {"key": "sku"}) == said(fault("taints[0]", 'instanceTypes ["m6i.large"]', "sku"))


def test_what_decides_must_be_known() -> None:
    assert judge(RULE, EKS, TAINTED, unknown=("instanceTypes",)) == said(unknown="instanceTypes")
    assert judge(RULE, EKS, TAINTED, unknown=("taints",)) == said(unknown="taints")
    assert judge(RULE, EKS, SPOT, unknown=("taints",)) == CLEAN, "a GPU pool may carry it"
    assert judge(RULE, EKS, SPOT, unknown=("instanceTypes", 0)) == CLEAN, "the other type has a GPU"
    assert judge(RULE, EKS, SYSTEM, unknown=("instanceTypes",)) == CLEAN, "no taint, no fault"


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS, SYSTEM),
        Case(EKS, SPOT),
        Case(EKS, TAINTED, config={"key": "sku"}),
        Case(OKE, OKE_SYSTEM),
        Case(OKE, REGISTERED | {"nodeShape": "VM.GPU.A10.1"}),
        Case(KARPENTER, NODE_POOL),
        Case(KARPENTER, changed(CPU_POOL, *REQUIREMENTS[:-1], "taints", [])),
    ),
    violating=(
        Case(EKS, TAINTED, (EKS_FAULT,)),
        Case(OKE, REGISTERED, (OKE_FAULT,)),
        Case(KARPENTER, CPU_POOL, (KARPENTER_FAULT,)),
        Case(
            KARPENTER,
            changed(CPU_POOL, *REQUIREMENTS[:-1], "taints", [K8S_TAINT | {"key": "sku"}]),
            (KARPENTER_FAULT.replace(f"the key {GPU}", "the key sku"),),
            config={"key": "sku"},
        ),
    ),
)
