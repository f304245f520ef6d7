"""gpu-node-taint: each clause broken once, each kind of pool, and the pools that it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import botocore.session
import pytest

from fleet.facts.scheduling import OKE_PROFILE, Effect, Taint
from policies.rules import gpu_node_taint
from policies.rules.gpu_node_taint import RULE
from policies.rules.kinds import NODE_OBJECTS
from tests.policies.cases import Case
from tests.policies.fixtures import (
    A10_POOL_PROPS,
    GPU,
    KARPENTER_POOL,
    KARPENTER_POOL_PROPS,
    NODE_GROUP,
    NODE_GROUP_PROPS,
    OKE_POOL,
    OKE_POOL_PROPS,
    OKE_RESERVED_PROPS,
    SYSTEM_GROUP_PROPS,
)
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, changed, config_of, judge, remedied, said, secret
from tests.policies.pool_fixtures import HOST, LEAVING, TALOS
from tests.policies.suite import Suite

EKS_RULE = f"needs a taint {GPU} with effect NO_SCHEDULE or NO_EXECUTE"
EKS_MEND = f'add {{key: {GPU}, value: "true", effect: NO_SCHEDULE}}'
BARE = changed(NODE_GROUP_PROPS, "taints", [])
TEMPLATE = ("spec", "template", "spec")


def missing(sign: str) -> str:
    return f"taints: a GPU pool ({sign}) {EKS_RULE}; {EKS_MEND}"


def group(**props: Any) -> Any:
    return judge(RULE, NODE_GROUP, {"clusterName": "usw2"} | props)


@pytest.mark.parametrize("taints", [[], None, REMOVE, "NO_SCHEDULE", [{"key": "spot", "effect": "NO_SCHEDULE"}]])
def test_an_eks_gpu_pool_carries_the_taint(taints: Any) -> None:
    props = changed(NODE_GROUP_PROPS, "taints", taints)
    assert judge(RULE, NODE_GROUP, props) == said(missing('amiType is "AL2023_x86_64_NVIDIA"'))


@pytest.mark.parametrize(
    ("props", "sign"),
    [
        ({"instanceTypes": ["g4dn.xlarge"]}, "instanceTypes[0]: g4dn.xlarge has 1 GPU"),
        ({"instanceTypes": ["m6i.large", "g5.12xlarge"]}, "instanceTypes[1]: g5.12xlarge has 4 GPUs"),
        ({"instanceTypes": secret(["g5.12xlarge"])}, "instanceTypes[0]: g5.12xlarge has 4 GPUs"),
        ({"amiType": "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"}, 'amiType is "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"'),
        ({"amiType": "AL2_x86_64_GPU", "instanceTypes": ["x9.large"]}, 'amiType is "AL2_x86_64_GPU"'),
        (
            {"instanceTypes": ["p9.48xlarge"]},
            'instanceTypes[0]: "p9.48xlarge" is of an accelerated family, though not in the hardware table',
        ),
        ({"amiType": "CUSTOM", "labels": {"nvidia.com/gpu": "true"}}, 'labels["nvidia.com/gpu"] is "true"'),
    ],
)
def test_a_gpu_pool_is_known_by_its_types_its_image_or_its_labels(props: dict[str, Any], sign: str) -> None:
    assert group(**props) == said(missing(sign))


@pytest.mark.parametrize(
    "props",
    [
        SYSTEM_GROUP_PROPS,
        {"instanceTypes": ["x9.large"]},
        {"amiType": "AL2023_x86_64_NEURON", "instanceTypes": ["inf2.xlarge"]},
        {"amiType": "CUSTOM", "labels": {"gpu-ci/pool": "builders", "gpu-ci/capacity": "spot"}},
        {},
    ],
)
def test_a_pool_without_a_sign_of_gpus_needs_no_taint(props: dict[str, Any]) -> None:
    assert group(**props) == CLEAN


@pytest.mark.parametrize("effect", ["NO_SCHEDULE", "NO_EXECUTE"])
@pytest.mark.parametrize("value", ["true", "present", None])
def test_both_hard_effects_and_any_value_will_do(effect: str, value: str | None) -> None:
    assert group(instanceTypes=["g5.xlarge"], taints=[{"key": GPU, "value": value, "effect": effect}]) == CLEAN


def test_every_eks_effect_is_judged_and_only_the_soft_one_does_not_keep_pods_off() -> None:
    effects = botocore.session.get_session().get_service_model("eks").shape_for("TaintEffect").enum
    soft = [each for each in effects if group(instanceTypes=["g5.xlarge"], taints=[{"key": GPU, "effect": each}]) != CLEAN]
    assert soft == ["PREFER_NO_SCHEDULE"]


def test_a_preference_is_too_weak() -> None:
    message = (
        'taints[0].effect is "PREFER_NO_SCHEDULE": only NO_SCHEDULE and NO_EXECUTE keep pods off GPU nodes; write NO_SCHEDULE'
    )
    assert judge(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "effect", "PREFER_NO_SCHEDULE")) == said(message)


@pytest.mark.parametrize(
    ("effect", "spelt"),
    [("NoSchedule", "NO_SCHEDULE"), ("NoExecute", "NO_EXECUTE"), ("PreferNoSchedule", "PREFER_NO_SCHEDULE")],
)
def test_eks_does_not_take_the_spelling_of_kubernetes(effect: str, spelt: str) -> None:
    message = f'taints[0].effect is "{effect}": EKS spells it {spelt}; write that'
    assert judge(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "effect", effect)) == said(message)


def test_a_hard_taint_beside_a_weak_one_is_enough_beside_a_misspelt_one_is_not() -> None:
    weak = {"key": GPU, "effect": "PREFER_NO_SCHEDULE"}
    misspelt = {"key": GPU, "effect": "NoExecute"}
    assert judge(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 1, weak)) == CLEAN
    assert judge(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 1, misspelt)) == said(
        'taints[1].effect is "NoExecute": EKS spells it NO_EXECUTE; write that'
    )


def test_karpenter_pools_carry_the_taint_in_the_spelling_of_kubernetes() -> None:
    path = "spec.template.spec.taints"
    sign = "spec.template.spec.requirements[2].values[0]: g4dn.xlarge has 1 GPU"
    props = changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", REMOVE)
    assert judge(RULE, KARPENTER_POOL, props) == said(
        f"{path}: a GPU pool ({sign}) needs a taint {GPU} with effect NoSchedule or NoExecute; "
        f'add {{key: {GPU}, value: "true", effect: NoSchedule}}'
    )
    props = changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", 0, "effect", "NO_SCHEDULE")
    assert judge(RULE, KARPENTER_POOL, props) == said(
        f'{path}[0].effect is "NO_SCHEDULE": Karpenter spells it NoSchedule; write that'
    )
    props = changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", 0, "effect", "PreferNoSchedule")
    assert judge(RULE, KARPENTER_POOL, props) == said(
        f'{path}[0].effect is "PreferNoSchedule": only NoSchedule and NoExecute keep pods off GPU nodes; write NoSchedule'
    )


def test_a_karpenter_gpu_pool_is_known_by_its_labels() -> None:
    props = {"spec": {"template": {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}}}}
    (message,) = judge(RULE, KARPENTER_POOL, props).messages
    assert '(spec.template.metadata.labels["nvidia.com/gpu.present"] is "true")' in message


def test_labels_that_say_nothing_of_gpus_may_be_unknown() -> None:
    props = changed(SYSTEM_GROUP_PROPS, "labels", "owner", "ci")
    assert judge(RULE, NODE_GROUP, props, unknown=("labels", "owner")) == CLEAN
    assert judge(RULE, NODE_GROUP, props, unknown=("labels", "gpu-ci/pool")) == CLEAN


def test_a_startup_taint_goes_away_and_does_not_count() -> None:
    taints = KARPENTER_POOL_PROPS["spec"]["template"]["spec"]["taints"]
    props = changed(changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", []), *TEMPLATE, "startupTaints", taints)
    assert len(judge(RULE, KARPENTER_POOL, props).messages) == 1


@pytest.mark.parametrize(
    ("requirement", "sign"),
    [
        ({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}, " asks for {key}"),
        ({"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["t4"]}, " asks for {key}"),
        ({"key": "karpenter.k8s.aws/instance-gpu-manufacturer", "operator": "Exists"}, " asks for {key}"),
        (
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "g"]},
            '.values[1]: "g" is accelerated',
        ),
        (
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m6i", "p4d"]},
            '.values[1]: "p4d" is accelerated',
        ),
    ],
)
def test_a_karpenter_gpu_pool_is_known_by_its_requirements(requirement: dict[str, Any], sign: str) -> None:
    props = {"spec": {"template": {"spec": {"requirements": [requirement]}}}}
    (message,) = judge(RULE, KARPENTER_POOL, props).messages
    assert f"(spec.template.spec.requirements[0]{sign.format(**requirement)})" in message


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Lt", "values": ["1"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "NotIn", "values": ["g", "p"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m6g", "r6gd"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m6i.large"]},
        {"key": "example.com/family", "operator": "In", "values": ["g5"]},
    ],
)
def test_requirements_that_keep_gpus_out_make_no_gpu_pool(requirement: dict[str, Any]) -> None:
    assert judge(RULE, KARPENTER_POOL, {"spec": {"template": {"spec": {"requirements": [requirement]}}}}) == CLEAN


@pytest.mark.parametrize(("limits", "gpu"), [({GPU: 4}, True), ({GPU: "4"}, True), ({GPU: 0}, False), ({"cpu": 4}, False)])
def test_a_karpenter_limit_of_gpus_makes_a_gpu_pool(limits: dict[str, Any], gpu: bool) -> None:
    assert bool(judge(RULE, KARPENTER_POOL, {"spec": {"limits": limits}}).messages) is gpu


OKE_POOLS = pytest.mark.parametrize("props", [OKE_POOL_PROPS, A10_POOL_PROPS, OKE_RESERVED_PROPS])


def oke_taints_with(taint: Taint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_node_taint, "OKE_PROFILE", replace(OKE_PROFILE, gpu_taint=taint))


@OKE_POOLS
def test_oke_taints_its_gpu_nodes_itself(props: dict[str, Any]) -> None:
    assert judge(RULE, OKE_POOL, props) == CLEAN
    assert judge(RULE, OKE_POOL, props, unknown=("nodeShape",)) == CLEAN, "good whatever the shape"


def test_the_taint_that_oke_sets_keeps_pods_off_as_ours_has_to() -> None:
    assert OKE_PROFILE.gpu_taint.key == RULE.config["key"]["default"]
    assert OKE_PROFILE.gpu_taint.effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


@OKE_POOLS
@pytest.mark.parametrize("value", ["", "present", "true", "anything"])
def test_which_value_oke_gives_its_taint_does_not_matter(
    props: dict[str, Any], value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    oke_taints_with(Taint(GPU, value, Effect.NO_SCHEDULE), monkeypatch)
    assert judge(RULE, OKE_POOL, props) == CLEAN


def test_what_oke_sets_is_read_from_the_scheduling_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    oke_taints_with(Taint("example.com/gpu", "yes", Effect.NO_SCHEDULE), monkeypatch)
    (message,) = judge(RULE, OKE_POOL, A10_POOL_PROPS).messages
    assert "OKE taints GPU nodes itself, with example.com/gpu=yes:NoSchedule and not nvidia.com/gpu" in message


@pytest.mark.parametrize("key", ["sku", "oci.oraclecloud.com/oke-is-preemptible"])
def test_oke_does_not_set_another_key_on_gpu_nodes(key: str) -> None:
    message = (
        "nodeShape: VM.GPU.A10.1 has 1 GPU: OKE taints GPU nodes itself, with nvidia.com/gpu=present:NoSchedule and not "
        f"{key}; set {config_of(RULE.id, 'key')} to OKE's key"
    )
    assert judge(RULE, OKE_POOL, A10_POOL_PROPS, {"key": key}) == said(message)
    assert judge(RULE, OKE_POOL, {"nodeShape": "VM.Standard.E5.Flex"}, {"key": key}) == CLEAN
    assert judge(RULE, OKE_POOL, A10_POOL_PROPS, {"key": key}, unknown=("nodeShape",)) == said(unknown="nodeShape")


def test_machines_that_join_no_cluster_carry_no_taint() -> None:
    assert not [token for token in RULE.types if token.startswith("oci:Core/")]


# -- machines of one's own -----------------------------------------------------------------------------------------------

HOST_SIGN = "gpus is 2"
UNTAINTED = changed(HOST, "nodeTaints", {})


def bare(sign: str = HOST_SIGN, key: str = GPU) -> str:
    return (
        f"nodeTaints: a GPU machine ({sign}) needs a taint {key} with effect NoSchedule or NoExecute; "
        f'add {key}: "true:NoSchedule"'
    )


def weak(written: str) -> str:
    return f'nodeTaints["{GPU}"] is {written}: only NoSchedule and NoExecute keep pods off GPU nodes; write "true:NoSchedule"'


@pytest.mark.parametrize("taints", [{}, None, REMOVE, "true:NoSchedule", [{"key": GPU}], {"team": "ml:NoSchedule"}])
def test_a_machine_of_ones_own_carries_the_taint(taints: Any) -> None:
    assert judge(RULE, TALOS, changed(HOST, "nodeTaints", taints)) == said(bare())


@pytest.mark.parametrize("written", ["true:NoSchedule", "present:NoExecute", ":NoSchedule", "NoSchedule"])
def test_talos_takes_a_value_and_an_effect_or_the_effect_alone(written: str) -> None:
    assert judge(RULE, TALOS, changed(HOST, "nodeTaints", GPU, written)) == CLEAN


@pytest.mark.parametrize(
    "written", ["true:PreferNoSchedule", "true:NO_SCHEDULE", "true", "", "NoSchedule:true", "a:b:NoSchedule"]
)
def test_talos_knows_no_other_spelling_that_keeps_pods_off(written: str) -> None:
    assert judge(RULE, TALOS, changed(HOST, "nodeTaints", GPU, written)) == said(weak(f'"{written}"'))


@pytest.mark.parametrize("count", [0.0, "two", None, UNKNOWN])
def test_a_talos_node_is_a_gpu_machine_whatever_is_told_of_it(count: Any) -> None:
    assert judge(RULE, TALOS, changed(UNTAINTED, "gpus", count)) == said(bare(TALOS))


def test_unknown_taints_of_a_talos_node_are_undeterminable() -> None:
    for path in (("nodeTaints",), ("nodeTaints", GPU)):
        assert judge(RULE, TALOS, HOST, unknown=path) == said(unknown=".".join(path))


def test_nobody_mends_a_machine_by_what_is_told_of_it() -> None:
    assert remedied(RULE, TALOS, UNTAINTED) is None


def test_the_key_is_configurable() -> None:
    (message,) = judge(RULE, NODE_GROUP, NODE_GROUP_PROPS, {"key": "sku"}).messages
    assert "needs a taint sku" in message
    props = changed(NODE_GROUP_PROPS, "taints", 0, "key", "sku")
    assert judge(RULE, NODE_GROUP, props, {"key": "sku"}) == CLEAN


def test_unknown_taints_of_a_known_gpu_pool_are_undeterminable() -> None:
    assert judge(RULE, NODE_GROUP, NODE_GROUP_PROPS, unknown=("taints",)) == said(unknown="taints")
    assert judge(RULE, NODE_GROUP, SYSTEM_GROUP_PROPS | {"taints": []}, unknown=("taints",)) == CLEAN


def test_a_known_taint_makes_unknown_types_harmless_and_unknown_types_without_one_do_not_pass() -> None:
    assert judge(RULE, NODE_GROUP, NODE_GROUP_PROPS, unknown=("instanceTypes",)) == CLEAN
    props = changed(SYSTEM_GROUP_PROPS, "taints", [])
    assert judge(RULE, NODE_GROUP, props, unknown=("instanceTypes", 0)) == said(unknown="instanceTypes[0]")
    assert judge(RULE, NODE_GROUP, props, unknown=("amiType",)) == said(unknown="amiType")


def test_an_unknown_taint_beside_a_hard_one_may_still_be_misspelt() -> None:
    props = changed(NODE_GROUP_PROPS, "taints", 1, {"key": GPU, "effect": "NO_EXECUTE"})
    assert judge(RULE, NODE_GROUP, props, unknown=("taints", 1, "effect")) == said(unknown="taints[1].effect")


def test_one_known_gpu_type_is_enough_whatever_the_other_is() -> None:
    props = {"instanceTypes": ["m6i.large", "g5.xlarge"]}
    found = judge(RULE, NODE_GROUP, props, unknown=("instanceTypes", 0))
    assert found == said(missing("instanceTypes[1]: g5.xlarge has 1 GPU"))


def test_a_misspelt_effect_is_reported_before_an_unknown_taint_stops_the_rule() -> None:
    taints = [{"key": GPU, "effect": "NoSchedule"}, {"key": GPU, "effect": "NO_SCHEDULE"}]
    props = changed(NODE_GROUP_PROPS, "taints", taints)
    assert judge(RULE, NODE_GROUP, props, unknown=("taints", 1, "key")) == said(
        'taints[0].effect is "NoSchedule": EKS spells it NO_SCHEDULE; write that', unknown="taints[1].key"
    )
    weak = changed(NODE_GROUP_PROPS, "taints", 1, {"key": "a", "effect": "PREFER_NO_SCHEDULE"})
    weak = changed(weak, "taints", 0, "effect", "PREFER_NO_SCHEDULE")
    assert judge(RULE, NODE_GROUP, weak, unknown=("taints", 1)) == said(unknown="taints[1]"), "the unknown may be the hard one"


# -- the remedy --------------------------------------------------------------------------------------------------------

HARD = {"key": GPU, "value": "true", "effect": "NO_SCHEDULE"}
WEAK = {"key": GPU, "value": "true", "effect": "PREFER_NO_SCHEDULE"}
OTHER = {"key": "team", "value": "ml", "effect": "NO_EXECUTE"}


@pytest.mark.parametrize("taints", [[], [OTHER], [WEAK], [OTHER, WEAK], [secret(OTHER)]])
def test_the_missing_taint_is_added_and_no_other_is_touched(taints: list[Any]) -> None:
    after = remedied(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", taints))
    assert after == changed(NODE_GROUP_PROPS, "taints", [*taints, HARD]), "a weak taint beside a hard one does no harm"


@pytest.mark.parametrize("taints", [None, REMOVE])
def test_a_group_without_taints_gets_a_list_of_one(taints: Any) -> None:
    after = remedied(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", taints))
    assert after == changed(NODE_GROUP_PROPS, "taints", [HARD])


def test_a_karpenter_pool_gets_the_taint_in_the_spelling_of_kubernetes() -> None:
    after = remedied(RULE, KARPENTER_POOL, changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", REMOVE))
    assert after == changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", [HARD | {"effect": "NoSchedule"}])


def test_a_misspelt_taint_is_left_to_its_owner() -> None:
    assert remedied(RULE, NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "effect", "NoSchedule")) is None


def test_unknown_taints_may_hold_the_missing_one_and_are_left_alone() -> None:
    for path in (("taints",), ("taints", 0), ("taints", 0, "key"), ("taints", 0, "effect")):
        props = changed(changed(NODE_GROUP_PROPS, "taints", [WEAK]), *path, UNKNOWN)
        assert remedied(RULE, NODE_GROUP, props) is None, path


def test_what_is_not_known_to_be_a_gpu_pool_gets_no_taint() -> None:
    props = changed(SYSTEM_GROUP_PROPS, "instanceTypes", UNKNOWN)
    assert remedied(RULE, NODE_GROUP, props) is None


def test_a_taint_of_another_key_is_added_where_the_config_asks_for_it() -> None:
    after = remedied(RULE, NODE_GROUP, NODE_GROUP_PROPS, {"key": "sku"})
    assert after == changed(NODE_GROUP_PROPS, "taints", 1, HARD | {"key": "sku"})


def test_oke_has_no_taints_to_mend() -> None:
    assert remedied(RULE, OKE_POOL, A10_POOL_PROPS, {"key": "sku"}) is None


KARPENTER_SIGN = "spec.template.spec.requirements[2].values[0]: g4dn.xlarge has 1 GPU"
NODE, PATCH = "kubernetes:core/v1:Node", "kubernetes:core/v1:NodePatch"
WRITTEN = (
    "spec: only the kubelet, the scheduler and Karpenter write this object, by the taints and labels of pools; leave it out, and "
    "write them in the pool"
)
CORDON = {"metadata": {"name": "10.0.1.7"}, "spec": {"unschedulable": True}}


@pytest.mark.parametrize(
    ("spec", "labels", "messages"),
    [
        ({"unschedulable": True}, {}, ()),
        ({"unschedulable": False}, {}, (WRITTEN,)),
        ({"unschedulable": True, "taints": []}, {}, (WRITTEN,)),
        ({"taints": []}, {}, (WRITTEN,)),
        ({"unschedulable": True}, {"gpu-ci/pool": "t4"}, (WRITTEN,)),
        ({}, {}, (WRITTEN,)),
    ],
)
def test_a_patch_of_a_node_may_cordon_it_and_nothing_else(
    spec: dict[str, Any], labels: dict[str, str], messages: tuple[str, ...]
) -> None:
    props = {"metadata": {"name": "10.0.1.7", "labels": labels}, "spec": spec}
    assert judge(RULE, PATCH, props).messages == messages


SUITE = Suite(
    RULE,
    passing=(
        Case(NODE_GROUP, NODE_GROUP_PROPS),
        Case(NODE_GROUP, SYSTEM_GROUP_PROPS),
        Case(NODE_GROUP, NODE_GROUP_PROPS | {"taints": [HARD, LEAVING]}),
        Case(NODE_GROUP, changed(NODE_GROUP_PROPS, "taints", 0, "key", "sku"), config={"key": "sku"}),
        Case(KARPENTER_POOL, KARPENTER_POOL_PROPS),
        Case(OKE_POOL, OKE_POOL_PROPS),
        Case(TALOS, HOST),
        Case(TALOS, changed(HOST, "nodeTaints", {"sku": "NoExecute"}), config={"key": "sku"}),
        Case(PATCH, CORDON),
    ),
    forbidden=NODE_OBJECTS - {PATCH},
    violating=(
        Case(PATCH, changed(CORDON, "spec", "taints", []), (WRITTEN,), unremedied=True),
        *(Case(token, CORDON, (WRITTEN,), unremedied=True) for token in sorted(NODE_OBJECTS - {PATCH})),
        Case(NODE_GROUP, NODE_GROUP_PROPS | {"taints": [LEAVING]}, (missing('amiType is "AL2023_x86_64_NVIDIA"'),)),
        Case(NODE_GROUP, BARE, (missing('amiType is "AL2023_x86_64_NVIDIA"'),)),
        Case(TALOS, UNTAINTED, (bare(),), unremedied=True),
        Case(
            TALOS, changed(HOST, "nodeTaints", GPU, "true:PreferNoSchedule"), (weak('"true:PreferNoSchedule"'),), unremedied=True
        ),
        Case(TALOS, HOST, (bare(key="sku"),), config={"key": "sku"}, unremedied=True),
        Case(
            NODE_GROUP,
            changed(NODE_GROUP_PROPS, "taints", [OTHER, WEAK]),
            (
                'taints[1].effect is "PREFER_NO_SCHEDULE": only NO_SCHEDULE and NO_EXECUTE keep pods off GPU nodes; '
                "write NO_SCHEDULE",
            ),
        ),
        Case(
            NODE_GROUP,
            changed(NODE_GROUP_PROPS, "taints", 0, "effect", "NoSchedule"),
            ('taints[0].effect is "NoSchedule": EKS spells it NO_SCHEDULE; write that',),
            unremedied=True,
        ),
        Case(
            KARPENTER_POOL,
            changed(KARPENTER_POOL_PROPS, *TEMPLATE, "taints", []),
            (
                f"spec.template.spec.taints: a GPU pool ({KARPENTER_SIGN}) needs a taint {GPU} with effect NoSchedule or "
                f'NoExecute; add {{key: {GPU}, value: "true", effect: NoSchedule}}',
            ),
        ),
        Case(
            OKE_POOL,
            A10_POOL_PROPS,
            (
                "nodeShape: VM.GPU.A10.1 has 1 GPU: OKE taints GPU nodes itself, with nvidia.com/gpu=present:NoSchedule and not "
                f"sku; set {config_of(RULE.id, 'key')} to OKE's key",
            ),
            config={"key": "sku"},
            unremedied=True,
        ),
    ),
)
