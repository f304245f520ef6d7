"""gpu-toleration-scope: CPU pods on GPU nodes, tolerations of everything, and who may have them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.arc import arc_controller
from fleet.charts.chart import Chart
from fleet.charts.device_plugin import device_plugin
from fleet.facts.scheduling import EKS_PROFILE
from policies.rules.gpu_toleration_scope import CONTROLLERS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import (
    CPU_POD,
    DEVICE_PLUGIN,
    GPU,
    GPU_POD,
    LAUNCHER_POD,
    POD,
    RELEASE,
    RUNNER_SET,
    pod,
    release,
    template,
)
from tests.policies.harness import CLEAN, Verdict, changed, judge, said, spelled
from tests.policies.published import chart_values
from tests.policies.suite import Suite, in_pods

OPENING = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
EVERYTHING = {"operator": "Exists"}
STRAY = CPU_POD | {"tolerations": [OPENING]}
NODE_AGENT = {"tolerations": [EVERYTHING], "containers": [{"name": "aws-node"}, {"name": "aws-eks-nodeagent"}]}


def stray(path: str = "spec", index: int = 0, why: str = "a pod that takes no GPU stays off GPU nodes") -> str:
    return f"{path}.tolerations[{index}] tolerates {GPU}: {why}; remove the toleration"


def controller(path: str) -> str:
    return stray(path, why="a controller takes no GPU")


def keyless(path: str = "spec", index: int = 0) -> str:
    return (
        f"{path}.tolerations[{index}] has operator Exists and no key: it tolerates every taint; "
        "write the key of the taint that you mean"
    )


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config)


def chart(name: str, *path: str) -> dict[str, Any]:
    values: dict[str, Any] = {"tolerations": [OPENING]}
    for step in reversed(path):
        values = {step: values}
    return {"chart": f"oci://example.com/charts/{name}", "version": "1.0.0", "values": values}


@pytest.mark.parametrize("toleration", [OPENING, {"key": GPU, "value": "present"}, {"key": GPU, "operator": "Exists"}])
def test_a_pod_without_gpus_stays_off_gpu_nodes(toleration: dict[str, Any]) -> None:
    assert judged(CPU_POD | {"tolerations": [toleration]}) == said(stray())
    assert judged(GPU_POD | {"tolerations": [toleration]}) == CLEAN
    assert judged(LAUNCHER_POD | {"tolerations": [toleration]}) == said(stray())


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": GPU, "operator": "Exists", "effect": "PreferNoSchedule"},
        {"key": GPU, "value": "false"},
        {"key": "spot", "operator": "Exists"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
        {"operator": "Equal"},
        {},
    ],
)
def test_other_tolerations_open_no_gpu_node(toleration: dict[str, Any]) -> None:
    assert judged(CPU_POD | {"tolerations": [toleration]}) == CLEAN


@pytest.mark.parametrize("effect", [{}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}])
@pytest.mark.parametrize("spec", [CPU_POD, GPU_POD])
def test_nobody_tolerates_everything(spec: dict[str, Any], effect: dict[str, str]) -> None:
    other = {"key": "spot", "operator": "Exists"}
    assert judged(spec | {"tolerations": [other, EVERYTHING | effect]}) == said(keyless(index=1))


def test_who_serves_the_node_may_stand_on_every_one() -> None:
    assert judged(DEVICE_PLUGIN) == CLEAN
    assert judged(NODE_AGENT) == CLEAN
    assert judged(changed(NODE_AGENT, "containers", 1, "name", "miner")) == said(keyless())
    assert judged(NODE_AGENT, allowNames=["other"]) == said(keyless())
    assert judged(STRAY, allowNames=["listener"]) == CLEAN
    assert judged({"tolerations": [EVERYTHING]}) == said(keyless()), "a pod without containers serves no one"


@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (RELEASE, changed(release(GPU_POD), "values", "listenerTemplate", {"spec": STRAY}), "values.listenerTemplate.spec"),
        (RUNNER_SET, changed(template(GPU_POD), "spec", "listenerTemplate", {"spec": STRAY}), "spec.listenerTemplate.spec"),
    ],
)
def test_a_listener_stays_off_gpu_nodes(token: str, props: dict[str, Any], path: str) -> None:
    assert judge(RULE, token, props) == said(stray(path))


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, places in CONTROLLERS.items() for path in places])
def test_controllers_stay_off_gpu_nodes(name: str, path: tuple[str, ...]) -> None:
    place = ".".join(("values", *path))
    assert judge(RULE, RELEASE, chart(name, *path)) == said(controller(place))
    everything = changed(chart(name, *path), "values", *path, "tolerations", [EVERYTHING])
    assert judge(RULE, RELEASE, everything) == said(keyless(place))
    none = changed(chart(name, *path), "values", *path, "tolerations", [])
    assert judge(RULE, RELEASE, none) == CLEAN


@pytest.mark.reference
@pytest.mark.parametrize(("name", "path"), [(name, path) for name, places in CONTROLLERS.items() for path in places])
def test_the_places_are_those_of_the_charts(name: str, path: tuple[str, ...]) -> None:
    held = chart_values(name)
    for step in path:
        held = held[step]
    assert "tolerations" in held


def test_what_a_chart_puts_on_gpu_nodes_tolerates_their_taint() -> None:
    for props in (
        chart("nvidia-device-plugin"),
        chart("gpu-operator", "daemonsets"),
        chart("gpu-operator", "node-feature-discovery", "worker"),
        chart("dcgm-exporter"),
    ):
        assert judge(RULE, RELEASE, props) == CLEAN


@pytest.mark.parametrize(
    "ours", [arc_controller(), device_plugin(tolerations=EKS_PROFILE.tolerations)], ids=lambda ours: ours.chart
)
def test_the_controllers_of_our_own_charts_stay_off(ours: Chart) -> None:
    assert ours.chart in CONTROLLERS
    assert judge(RULE, RELEASE, {"chart": ours.chart, "values": ours.values}) == CLEAN


def test_unknown_parts_leave_it_open_only_where_they_decide() -> None:
    path = ("spec", "containers", 0, "resources")
    assert judge(RULE, POD, pod(STRAY), unknown=path) == said(unknown=spelled(path))
    assert judge(RULE, POD, pod(CPU_POD), unknown=path) == CLEAN
    name = ("spec", "containers", 0, "name")
    assert judge(RULE, POD, pod(NODE_AGENT), unknown=name) == said(unknown="spec.containers[0].name")
    assert judge(RULE, POD, pod(CPU_POD), unknown=name) == CLEAN
    everything = CPU_POD | {"tolerations": [EVERYTHING]}
    assert judge(RULE, POD, pod(everything), unknown=path) == said(keyless()), "whatever it takes"


def test_an_unknown_toleration_may_open_gpu_nodes() -> None:
    assert judge(RULE, POD, pod(STRAY), unknown=("spec", "tolerations")) == said(unknown="spec.tolerations")
    assert judge(RULE, POD, pod(DEVICE_PLUGIN), unknown=("spec", "tolerations")) == CLEAN
    props = chart("cluster-autoscaler")
    assert judge(RULE, RELEASE, props, unknown=("values", "tolerations")) == said(unknown="values.tolerations")


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *in_pods(DEVICE_PLUGIN, tokens=["kubernetes:apps/v1:DaemonSet", POD]),
        Case(POD, pod(STRAY), config={"allowNames": ["listener"]}),
        Case(RELEASE, chart("nvidia-device-plugin")),
    ),
    violating=(
        *in_pods(STRAY, stray("{pod}")),
        Case(POD, pod(GPU_POD | {"tolerations": [EVERYTHING]}), (keyless(),)),
        Case(POD, pod(DEVICE_PLUGIN), (stray(),), {"allowNames": ["exporter"]}),
        Case(RELEASE, chart("gha-runner-scale-set-controller"), (controller("values"),)),
        Case(
            RELEASE,
            changed(release(GPU_POD), "values", "listenerTemplate", {"spec": STRAY}),
            (stray("values.listenerTemplate.spec"),),
        ),
    ),
)
