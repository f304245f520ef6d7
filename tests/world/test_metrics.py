"""Real Prometheus and kube-state-metrics on a real control plane, with the rules of a fleet in a sixtieth of their times."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.arc import CONTROLLER
from fleet.facts.errors import InputError
from fleet.render.monitoring.objects import targets
from gpu_ci.world.metrics import Metrics, of_pods
from gpu_ci.world.parts import find
from gpu_ci.world.plane import FAKE_NODE, Plane, control_plane
from gpu_ci.world.processes import Processes
from tests.monitoring.fleet import CLUSTER, monitored

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "prometheus", "kube-state-metrics")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]


def pod(name: str, namespace: str = "arc-systems", port: str = "metrics", **labels: str) -> dict[str, Any]:
    container = {"name": "listener", "image": "x", "ports": [{"name": port, "containerPort": 8080}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container], "nodeName": "gpu-0"},
    }


LISTENER = {"app.kubernetes.io/component": "runner-scale-set-listener", "actions.github.com/scale-set-name": "gpu-t4"}


def test_targets_have_the_labels_that_the_monitors_of_the_program_give_them():
    monitors = [*targets(monitored().clusters[CLUSTER], {CONTROLLER})]
    manager = {"app.kubernetes.io/component": "controller-manager", "app.kubernetes.io/part-of": "gha-rs-controller"}
    pods = [
        pod("gpu-t4-listener", **LISTENER),
        pod("arc-controller", **manager),
        pod("without-process", **LISTENER),
        pod("elsewhere", namespace="other", **LISTENER),
        pod("other-port", port="http", **LISTENER),
        pod("unlabelled"),
    ]
    ports = {"gpu-t4-listener": {8080: 41001}, "arc-controller": {8080: 41002}, "elsewhere": {8080: 1}, "other-port": {8080: 2}}
    found = [*of_pods(monitors, "monitoring", pods, lambda _, name: ports[name])]
    common = {"namespace": "arc-systems", "container": "listener", "endpoint": "metrics"}
    assert found == [
        (common | {"job": "monitoring/gpu-ci-arc-listeners", "pod": "gpu-t4-listener", "scale_set": "gpu-t4"}, "127.0.0.1:41001"),
        (common | {"job": "monitoring/gpu-ci-arc-controller", "pod": "arc-controller"}, "127.0.0.1:41002"),
    ]


@pytest.mark.parametrize("factor", [0, 0.5, 61])
def test_a_factor_that_scrapes_cannot_follow_is_refused(factor):
    with pytest.raises(InputError, match=r"time factor: must be from 1 to 60.*got"):
        Metrics(Plane.__new__(Plane), monitored(), CLUSTER, list, factor)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    if MISSING:
        pytest.skip(f"not on PATH: {', '.join(MISSING)}")
    folder: Path = tmp_path_factory.mktemp("metrics")
    with Processes(folder) as processes:
        yield control_plane(processes, find())


@pytest.fixture(scope="module")
def metrics(plane: Plane) -> Iterator[Metrics]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "gpu-0",
            "annotations": {FAKE_NODE: "fake"},
            "labels": monitored().clusters[CLUSTER].pools["t4"].node_selector("t4"),
        },
    }
    plane.api.call("POST", "/api/v1/nodes", node)
    offer(plane, 1)
    for namespace in ("arc-systems", "runners-gpu-t4"):
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    found = Metrics(plane, monitored(), CLUSTER, list, 60)
    yield found
    found.close()
    assert not plane.processes.alive("prometheus")


def offer(plane: Plane, gpus: int) -> None:
    status = {"capacity": {"nvidia.com/gpu": "1", "pods": "50"}, "allocatable": {"nvidia.com/gpu": str(gpus), "pods": "50"}}
    plane.api.call("PATCH", "/api/v1/nodes/gpu-0/status", {"status": status}, "application/merge-patch+json")


def until(metrics: Metrics, name: str, seconds: float = 60) -> list[dict[str, str]]:
    """The labels of the alerts of that name, once some fire."""
    end = time.monotonic() + seconds
    while not (found := metrics.alerts().get(name, [])):
        assert time.monotonic() < end, (name, metrics.alerts(), metrics.alerts("pending"))
        time.sleep(0.3)
    return found


pytestmark = pytest.mark.world


def test_a_listener_that_is_made_again_and_again_fires(plane: Plane, metrics: Metrics):
    account = "/api/v1/namespaces/arc-systems/serviceaccounts/default"
    plane.wait(lambda: plane.api.call("GET", account)["kind"] == "ServiceAccount", "the namespace")
    path = "/api/v1/namespaces/arc-systems/pods"
    name = "gpu-t4-0123abcd-listener"
    assert "GpuCiListenerRestarts" not in metrics.alerts()
    end = time.monotonic() + 60
    while "GpuCiListenerRestarts" not in metrics.alerts():
        assert time.monotonic() < end
        plane.api.call("POST", path, pod(name))
        time.sleep(0.6)
        plane.api.call("DELETE", f"{path}/{name}", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    [labels] = until(metrics, "GpuCiListenerRestarts")
    assert labels == {"namespace": "arc-systems", "pod": name, "severity": "critical"}
    plane.wait(lambda: any(name == "GpuCiListenerRestarts" for _, name, _ in metrics.history), "the history")


def test_a_gpu_that_is_lost_and_an_xid_fire(plane: Plane, metrics: Metrics):
    assert "GpuCiGpuMissing" not in metrics.alerts() | metrics.alerts("pending")
    offer(plane, 0)
    condition = {"type": "Xid79", "status": "True", "reason": "x", "message": "x"}
    plane.api.call(
        "PATCH", "/api/v1/nodes/gpu-0/status", {"status": {"conditions": [condition]}}, "application/strategic-merge-patch+json"
    )
    assert until(metrics, "GpuCiXidFatal")[0]["xid"] == "79"
    missing = until(metrics, "GpuCiGpuMissing")
    assert {labels["kubernetes_node"] for labels in missing} == {"gpu-0"}
    plane.wait(lambda: len(metrics.alerts()["GpuCiGpuMissing"]) == 2, "both signals")


def test_a_set_without_a_listener_fires_in_ten_seconds_and_not_at_once(metrics: Metrics):
    assert {labels["scale_set"] for labels in until(metrics, "GpuCiListenerGone")} == {"gpu-t4", "gpu-p4", "gpu-keep"}
