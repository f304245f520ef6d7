"""gpu-toleration-required: which tolerations cover the taint of GPU nodes, and the toleration that the remedy adds."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import EKS_PROFILE, OKE_PROFILE, SchedulingProfile
from policies.rules.gpu_toleration_required import RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, GPU, GPU_POD, POD, RELEASE, pod, release
from tests.policies.harness import CLEAN, REMOVE, UNKNOWN, Verdict, at, changed, judge, remedied, said, secret, spelled
from tests.policies.suite import Suite, in_pods

MEND = f"{{key: {GPU}, operator: Exists, effect: NoSchedule}}"
ADDED = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
BARE = changed(GPU_POD, "tolerations", REMOVE)
SPOT = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def lacking(taint: str = f"{GPU}=true:NoSchedule", path: str = "spec", mend: str = MEND) -> str:
    return f"{path}.tolerations: a pod that takes GPUs must tolerate the taint {taint} of GPU nodes; add {mend}"


def overdone(index: int, shown: str) -> str:
    return f"spec.tolerations[{index}].value is {shown}: the API server rejects a value with operator Exists; remove the value"


def tolerating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return dict(changed(GPU_POD, "tolerations", list(tolerations)))


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
        {"key": GPU, "operator": "Exists"},
        {"key": GPU, "operator": "Exists", "value": ""},
        {"operator": "Exists"},
    ],
)
def test_operator_exists_covers_every_value(toleration: dict[str, Any]) -> None:
    assert judged(tolerating(SPOT, toleration)) == CLEAN


@pytest.mark.parametrize("profile", [EKS_PROFILE, OKE_PROFILE])
def test_the_tolerations_of_our_own_runners_pass(profile: SchedulingProfile) -> None:
    assert judged(tolerating(*(each.manifest() for each in profile.tolerations))) == CLEAN


@pytest.mark.parametrize(
    "tolerations",
    [
        [],
        [SPOT],
        [{"key": GPU}],
        [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}],
        [{"key": GPU, "operator": "Exists", "effect": "PreferNoSchedule"}],
        [{"key": "nvidia.com", "operator": "Exists"}],
        [{"key": "sku", "operator": "Equal", "value": "gpu"}],
        [{"key": GPU, "operator": "exists"}],
    ],
)
def test_what_does_not_cover_the_taint_is_told(tolerations: list[dict[str, Any]]) -> None:
    assert judged(tolerating(*tolerations)) == said(lacking())


@pytest.mark.parametrize("restart", [{}, {"restartPolicy": "Always"}])
def test_a_gpu_of_an_init_or_sidecar_container_alone_is_enough(restart: dict[str, str]) -> None:
    warm = {"name": "warm", "resources": {"limits": {GPU: 1}}} | restart
    assert judged({"initContainers": [warm], "containers": [{"name": "work"}]}) == said(lacking())


def test_one_value_covers_the_nodes_of_one_provider() -> None:
    seeds = tolerating({"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"})
    assert judged(seeds) == said(lacking(f"{GPU}=present:NoSchedule"))
    assert judged(seeds, values=["true"]) == CLEAN, "a stack whose nodes all carry that one"
    both = tolerating({"key": GPU, "value": "true"}, {"key": GPU, "operator": "Equal", "value": "present"})
    assert judged(both) == CLEAN


def test_a_value_beside_exists_is_refused_by_the_api() -> None:
    spec = tolerating({"key": GPU, "operator": "Exists", "value": "true"})
    assert judged(spec) == said(overdone(0, '"true"'))
    assert judged(tolerating(ADDED, SPOT | {"operator": "Exists"})) == CLEAN, "another taint's is another matter"


def test_a_pod_without_gpus_needs_no_toleration() -> None:
    assert judged(CPU_POD) == CLEAN
    assert judge(RULE, POD, pod(CPU_POD), unknown=("spec", "nodeSelector")) == CLEAN


def test_key_and_effect_are_the_stacks() -> None:
    other = {"key": "sku", "values": ["gpu"], "effect": "NoExecute"}
    mend = "{key: sku, operator: Exists, effect: NoExecute}"
    assert judged(GPU_POD, **other) == said(lacking("sku=gpu:NoExecute", mend=mend))
    assert judged(tolerating({"key": "sku", "value": "gpu"}), **other) == CLEAN


@pytest.mark.parametrize("config", [{"key": 7}, {"values": "x"}, {"effect": "Never"}, {"values": []}])
def test_config_that_is_none_leaves_the_default(config: dict[str, Any]) -> None:
    assert judged(BARE, **config) == said(lacking())


def test_an_unknown_toleration_may_be_the_one() -> None:
    assert judge(RULE, POD, pod(tolerating(SPOT)), unknown=("spec", "tolerations", 0)) == said(unknown="spec.tolerations[0]")
    assert judge(RULE, POD, pod(GPU_POD), unknown=("spec", "tolerations")) == said(unknown="spec.tolerations")


def test_an_unknown_limit_may_make_it_a_gpu_pod() -> None:
    path = ("spec", "containers", 0, "resources")
    assert judge(RULE, POD, pod(BARE), unknown=path) == said(unknown=spelled(path))
    assert judge(RULE, POD, pod(GPU_POD), unknown=path) == CLEAN, "it tolerates the taint, whatever it takes"
    one = (*path, "limits", GPU)
    assert judge(RULE, POD, pod(BARE), unknown=one).messages == (lacking(),), "its request shows it"


def test_the_remedy_adds_the_toleration_and_keeps_the_others() -> None:
    after = remedied(RULE, POD, pod(tolerating(SPOT)))
    assert after == pod(tolerating(SPOT, ADDED))
    after = remedied(RULE, RELEASE, release(BARE))
    assert after is not None
    assert at(after, ("values", "template", "spec", "tolerations")) == [ADDED]
    listed = {"items": [pod(CPU_POD), pod(BARE)]}
    after = remedied(RULE, "kubernetes:core/v1:PodList", listed)
    assert after == changed(listed, "items", 1, "spec", "tolerations", [ADDED])


def test_the_remedy_takes_a_value_away_that_the_api_refuses() -> None:
    after = remedied(RULE, POD, pod(tolerating({"key": GPU, "operator": "Exists", "value": "true"})))
    assert after == pod(tolerating({"key": GPU, "operator": "Exists", "value": ""}))


@pytest.mark.parametrize("tolerations", [UNKNOWN, [UNKNOWN], [{"key": UNKNOWN, "operator": "Exists"}], "all", 7])
def test_the_remedy_leaves_alone_what_it_cannot_read(tolerations: Any) -> None:
    assert remedied(RULE, POD, pod(changed(GPU_POD, "tolerations", tolerations))) is None


def test_the_remedy_keeps_a_secret_list_secret() -> None:
    after = remedied(RULE, POD, pod(changed(GPU_POD, "tolerations", secret([SPOT]))))
    assert after == pod(changed(GPU_POD, "tolerations", secret([SPOT, ADDED])))


def test_the_remedy_adds_what_the_stack_asks_for() -> None:
    after = remedied(RULE, POD, pod(GPU_POD), {"key": "sku", "values": ["gpu"], "effect": "NoExecute"})
    assert after is not None
    assert at(after, ("spec", "tolerations", 1)) == {"key": "sku", "operator": "Exists", "effect": "NoExecute"}


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *in_pods(CPU_POD, tokens=[POD, RELEASE]),
        Case(POD, pod(tolerating({"key": GPU, "value": "true"})), config={"values": ["true"]}),
        Case(POD, pod(tolerating({"key": "sku", "operator": "Exists"})), config={"key": "sku"}),
        Case(POD, pod(tolerating({"key": GPU, "operator": "Exists", "effect": "NoExecute"})), config={"effect": "NoExecute"}),
    ),
    violating=(
        *in_pods(BARE, lacking(path="{pod}")),
        Case(POD, pod(tolerating(SPOT)), (lacking(),)),
        Case(POD, pod(tolerating({"key": GPU, "operator": "Exists", "value": "true"})), (overdone(0, '"true"'),)),
        Case(POD, pod(tolerating({"key": GPU, "value": "true"})), (lacking(f"{GPU}=present:NoSchedule"),)),
    ),
)
