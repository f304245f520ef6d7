"""gpu-node-selector: selectors and affinities that name a GPU machine, and those that leave it open."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import FLAVOR_LABEL
from policies.rules.gpu_node_selector import LABELS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, GPU, GPU_POD, POD, RELEASE, pod
from tests.policies.harness import CLEAN, REMOVE, Verdict, changed, judge, said, spelled
from tests.policies.suite import Suite, in_pods

ANYWHERE = changed(GPU_POD, "nodeSelector", REMOVE)
KNOWN = (
    "gpu-ci/pool, gpu-ci/flavor, accelerator, k8s.amazonaws.com/accelerator, node.kubernetes.io/instance-type, "
    "nvidia.com/gpu.product, karpenter.k8s.aws/instance-gpu-name"
)


def anywhere(path: str = "spec", known: str = KNOWN) -> str:
    return (
        f"{path}.nodeSelector: a pod that takes GPUs names its machines by one of the labels {known}; "
        f"add {known.partition(',')[0]}, or require it by node affinity"
    )


def selecting(**labels: Any) -> dict[str, Any]:
    return dict(changed(GPU_POD, "nodeSelector", {name.replace("__", "/"): value for name, value in labels.items()}))


def requiring(*terms: list[dict[str, Any]], kind: str = "requiredDuringSchedulingIgnoredDuringExecution") -> dict[str, Any]:
    affinity = {"nodeAffinity": {kind: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}
    return dict(changed(ANYWHERE, "affinity", affinity))


def expression(key: str = "accelerator", operator: str = "In", values: Any = ("nvidia-tesla-t4",)) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values) if isinstance(values, tuple) else values}


OS = expression("kubernetes.io/os", values=("linux",))


def judged(spec: dict[str, Any], unknown: tuple[str | int, ...] = (), **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config, ("spec", *unknown) if unknown else ())


@pytest.mark.parametrize("key", LABELS)
def test_each_label_names_a_machine(key: str) -> None:
    assert judged(changed(GPU_POD, "nodeSelector", {key: "a"})) == CLEAN
    assert judged(requiring([OS, expression(key)])) == CLEAN


@pytest.mark.parametrize("spec", [ANYWHERE, selecting(gpu="true"), selecting(role="gpu"), selecting(accelerator="")])
def test_a_selector_on_another_label_leaves_it_open(spec: dict[str, Any]) -> None:
    assert judged(spec) == said(anywhere())


def test_a_job_of_a_queue_flavor_selects_its_machines() -> None:
    assert judged(changed(GPU_POD, "nodeSelector", {FLAVOR_LABEL: "t4"})) == CLEAN


def test_a_pod_without_gpus_may_land_anywhere() -> None:
    assert judged(changed(CPU_POD, "nodeSelector", {})) == CLEAN


def test_terms_are_alternatives_so_each_of_them_names_a_machine() -> None:
    assert judged(requiring([expression()], [expression("gpu-ci/pool")])) == CLEAN
    assert judged(requiring([expression()], [OS])) == said(anywhere())
    assert judged(requiring()) == said(anywhere())


@pytest.mark.parametrize(
    "loose",
    [
        expression(operator="NotIn"),
        expression(operator="Exists", values=None),
        expression(values=()),
        expression(values="nvidia-tesla-t4"),
        expression("gpu"),
    ],
)
def test_an_expression_that_names_no_machine_leaves_it_open(loose: dict[str, Any]) -> None:
    assert judged(requiring([loose])) == said(anywhere())


def test_a_preferred_affinity_leaves_it_open() -> None:
    preference = {"weight": 100, "preference": {"matchExpressions": [expression()]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    assert judged(changed(ANYWHERE, "affinity", affinity)) == said(anywhere())


def test_only_the_clusters_scheduler_places_pods_with_gpus() -> None:
    told = 'spec.schedulerName is "mine": it does not know which GPUs others have; remove it'
    assert judged(GPU_POD | {"schedulerName": "mine"}) == said(told)
    assert judged(GPU_POD | {"schedulerName": "default-scheduler"}) == CLEAN


def test_labels_are_the_stacks() -> None:
    assert judged(selecting(gpu=True), labels=["gpu"]) == CLEAN
    assert judged(GPU_POD, labels=["gpu"]) == said(anywhere(known="gpu"))
    assert judged(GPU_POD, labels=[]).messages


def test_unknown_parts_leave_it_open_only_where_they_decide() -> None:
    assert judged(GPU_POD, ("nodeSelector", "gpu-ci/pool")) == said(unknown="spec.nodeSelector.gpu-ci/pool")
    assert judged(GPU_POD, ("affinity",)) == CLEAN, "the selector shows it"
    both = changed(requiring([expression()]), "nodeSelector", {"gpu-ci/pool": "a"})
    assert judged(both, ("nodeSelector",)) == CLEAN, "the affinity shows it"
    terms = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    assert judged(requiring([expression()]), (*terms, 0)) == said(unknown=spelled(("spec", *terms, 0)))
    assert judged(requiring([expression()], [OS]), (*terms, 0)) == said(anywhere()), "the other term leaves it open"
    limits = ("containers", 0, "resources")
    assert judged(GPU_POD, limits) == CLEAN
    assert judged(ANYWHERE, limits) == said(unknown="spec.containers[0].resources")
    assert judged(ANYWHERE, (*limits, "limits", GPU)).messages == (anywhere(),)


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *in_pods(requiring([expression()]), tokens=[POD, RELEASE]),
        Case(POD, pod(selecting(gpu="true")), config={"labels": ["gpu"]}),
    ),
    violating=(
        *in_pods(ANYWHERE, anywhere("{pod}")),
        Case(POD, pod(requiring([expression()], [OS])), (anywhere(),)),
        Case(POD, pod(GPU_POD), (anywhere(known="gpu"),), {"labels": ["gpu"]}),
    ),
)
