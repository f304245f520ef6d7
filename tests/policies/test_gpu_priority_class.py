"""gpu-priority-class: classes that GPU pods name, and values above theirs."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.scheduling import RUNNER_PRIORITY
from policies.rules.gpu_priority_class import CLASSES, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, GPU, GPU_POD, POD, pod
from tests.policies.harness import CLEAN, REMOVE, Verdict, changed, config_of, judge, said
from tests.policies.suite import Suite, in_pods

PRIORITY_CLASS = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
CLASSED = GPU_POD | {"priorityClassName": "gpu-ci-runner"}
CEILING = 1_000_000


def nameless(shown: str = "not set", path: str = "spec") -> str:
    return f"{path}.priorityClassName is {shown}: a GPU pod needs a priority class of the fleet; write gpu-ci-runner"


def above(path: str, value: int, ceiling: int = CEILING) -> str:
    raised = config_of(RULE.id, "ceiling")
    return f"{path} is {value}: a pod above {ceiling} can preempt running GPU jobs; write {ceiling} or less, or raise {raised}"


def priority(token: str, value: Any) -> tuple[dict[str, Any], str]:
    """A priority class with this value, and the path of the value."""
    props = {"metadata": {"name": "ci"}, "value": value, "preemptionPolicy": "Never"}
    return ({"items": [props]}, "items[0].value") if token.endswith("List") else (props, "value")


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config)


def test_our_own_class_is_the_ceiling() -> None:
    assert (RUNNER_PRIORITY.name, RUNNER_PRIORITY.value) == ("gpu-ci-runner", CEILING)


@pytest.mark.parametrize("name", ["gpu-ci-runner", "batch", "mysystem-class"])
def test_a_class_that_is_not_the_systems_passes(name: str) -> None:
    assert judged(GPU_POD | {"priorityClassName": name}) == CLEAN


@pytest.mark.parametrize(("name", "shown"), [(None, "not set"), ("", "not set"), (7, "not set")])
def test_a_gpu_pod_names_a_class(name: Any, shown: str) -> None:
    assert judged(GPU_POD | {"priorityClassName": name}) == said(nameless(shown))


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_a_class_of_the_systems_is_for_the_system(name: str) -> None:
    assert judged(GPU_POD | {"priorityClassName": name}) == said(nameless(f'"{name}"'))
    assert judged(CPU_POD | {"priorityClassName": name}) == CLEAN, "a DaemonSet of the node, perhaps"


def test_a_priority_by_number_has_the_same_ceiling() -> None:
    assert judged(CLASSED | {"priority": CEILING}) == CLEAN
    assert judged(CLASSED | {"priority": CEILING + 1}) == said(above("spec.priority", CEILING + 1))


@pytest.mark.parametrize("value", [CEILING, 0, -5, None, "high", [2_000_000]])
def test_a_class_within_the_ceiling_passes(value: Any) -> None:
    assert judge(RULE, PRIORITY_CLASS, priority(PRIORITY_CLASS, value)[0]) == CLEAN


def test_no_class_is_above_the_ceiling_of_the_stack() -> None:
    props, path = priority(PRIORITY_CLASS, 2_000_000)
    assert judge(RULE, PRIORITY_CLASS, props) == said(above(path, 2_000_000))
    assert judge(RULE, PRIORITY_CLASS, props, {"ceiling": 2_000_000}) == CLEAN
    assert judge(RULE, PRIORITY_CLASS, props, {"ceiling": "none"}) == said(above(path, 2_000_000))


def test_unknown_parts_leave_it_open_only_where_they_decide() -> None:
    assert judge(RULE, POD, pod(CLASSED), unknown=("spec", "priorityClassName")) == said(unknown="spec.priorityClassName")
    assert judge(RULE, POD, pod(CPU_POD), unknown=("spec", "priorityClassName")) == CLEAN
    resources = ("spec", "containers", 0, "resources")
    assert judge(RULE, POD, pod(CLASSED), unknown=resources) == CLEAN
    assert judge(RULE, POD, pod(GPU_POD), unknown=(*resources, "limits", GPU)).messages == (nameless(),), "its request shows it"
    assert judge(RULE, PRIORITY_CLASS, priority(PRIORITY_CLASS, 1)[0], unknown=("value",)) == said(unknown="value")


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(CLASSED),
        *(Case(token, priority(token, CEILING)[0]) for token in sorted(CLASSES)),
        Case(PRIORITY_CLASS, priority(PRIORITY_CLASS, 2_000_000)[0], config={"ceiling": 2_000_000}),
        Case(POD, pod(CPU_POD)),
    ),
    violating=(
        *in_pods(changed(CLASSED, "priorityClassName", REMOVE), nameless(path="{pod}")),
        *(
            Case(token, priority(token, CEILING + 1)[0], (above(priority(token, 0)[1], CEILING + 1),))
            for token in sorted(CLASSES)
        ),
        Case(POD, pod(CLASSED | {"priority": 50}), (above("spec.priority", 50, 10),), {"ceiling": 10}),
    ),
)
