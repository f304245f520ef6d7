"""Real Prometheus and kube-state-metrics on a real control plane, with the rules of a fleet in a sixtieth of their times."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.arc import CONTROLLER
from fleet.facts.errors import InputError
from fleet.facts.versions import CHARTS
from fleet.loading.config import load
from fleet.render.arc import CHART, freeing_command
from fleet.render.monitoring.objects import targets
from gpu_ci.world.metrics import Metrics, exporter, of_pods
from gpu_ci.world.parts import find
from gpu_ci.world.plane import FAKE_NODE, Plane, control_plane, delete
from gpu_ci.world.processes import Processes
from tests import builders
from tests.monitoring.fleet import CLUSTER, groups, monitored

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


_SPACE = "actions.github.com/scale-set-namespace"
LISTENER = {"app.kubernetes.io/component": "runner-scale-set-listener", _SPACE: "runners-gpu-t4"}


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


def test_a_cluster_without_monitoring_is_refused():
    with pytest.raises(InputError, match=r"gpu-ci:clusters.usw2.monitoring: .* add `prometheus: install`"):
        Metrics(Plane.__new__(Plane), load(builders.config()), CLUSTER, list)


def test_the_alerts_without_a_source_in_a_world():
    """GpuCiGpuHot reads a series that stands for a GPU, not its temperature, and so is silent too."""
    fed = {rule["record"] for rule in exporter(monitored().clusters[CLUSTER])["rules"]}
    missing: set[str] = set()
    names: dict[str, bool] = {}
    for rule in (rule for group in groups() for rule in group["rules"]):
        read = {*re.findall(r"\b(?:DCGM|kubelet)_\w+", rule["expr"])} - fed | {name for name in missing if name in rule["expr"]}
        if read and "record" in rule and not rule["record"].startswith("gpu_ci:start"):
            missing.add(rule["record"])
        elif "alert" in rule:
            names[rule["alert"]] = bool(read)
    silent = {"GpuCiGpuIdle", "GpuCiGpuMemoryHeld", "GpuCiGpuThrottled"}
    assert {name for name, unfed in names.items() if unfed} == silent | {
        "GpuCiEccUncorrectable",
        "GpuCiRowsRemapped",
        "GpuCiRowRemapFailed",
    }


def test_the_stand_in_of_the_exporter_counts_what_nodes_offer():
    by_gpu = {rule["labels"]["gpu"]: rule["expr"] for rule in exporter(monitored().clusters[CLUSTER])["rules"][:-1]}
    assert [*by_gpu] == [str(gpu) for gpu in range(8)]
    assert 'resource="nvidia_com_gpu"} > 7' in by_gpu["7"]
    # Four shares of each GPU: the second is there while the node offers more than four.
    assert 'resource="nvidia_com_gpu_shared"} > 4' in by_gpu["1"]


def test_pools_that_share_their_gpus_differently_never_make_up_a_loss():
    shared = {
        name: builders.pool(sharing={"strategy": "time-slicing", "replicas": replicas}) for name, replicas in (("a", 4), ("b", 2))
    }
    alone = {"monitoring": {"prometheus": "install"}, "runners": {}, "workloads": {}, "caches": {}}
    cluster = monitored(pools=shared, **alone).clusters[CLUSTER]
    rules = exporter(cluster)["rules"]
    assert [rule["expr"].count("nvidia_com_gpu_shared") for rule in rules] == [1, 0]
    several = shared | {"c": builders.pool(instanceTypes=["g4dn.12xlarge"], sharing={"strategy": "time-slicing", "replicas": 8})}
    rules = exporter(monitored(pools=several, **alone).clusters[CLUSTER])["rules"]
    assert [re.findall(r"> (\d+)", rule["expr"]) for rule in rules[:-1]] == [["0"], ["2"], ["4"], ["6"]]


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
    plane.wait(lambda: {"Ready", "True"} <= ready(plane), "the node")
    for namespace in ("arc-systems", "runners-gpu-t4"):
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    found = Metrics(plane, monitored(), CLUSTER, list, 60)
    yield found
    found.close()
    assert not plane.processes.alive("prometheus")


def ready(plane: Plane) -> set[str]:
    """Types and values of the conditions that the node has."""
    node = plane.api.call("GET", "/api/v1/nodes/gpu-0")
    return {condition[key] for condition in node["status"].get("conditions", ()) for key in ("type", "status")}


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


@pytest.mark.world
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
        delete(plane.api, f"{path}/{name}", gracePeriodSeconds=0)
    [labels] = until(metrics, "GpuCiListenerRestarts")
    assert labels == {"namespace": "arc-systems", "pod": name, "severity": "critical"}
    plane.wait(lambda: any(name == "GpuCiListenerRestarts" for _, name, _ in metrics.history), "the history")


@pytest.mark.world
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


@pytest.mark.world
def test_a_set_without_a_listener_fires_in_ten_seconds_and_not_at_once(metrics: Metrics):
    assert {labels["scale_set"] for labels in until(metrics, "GpuCiListenerGone")} == {"gpu-t4", "gpu-p4", "gpu-keep"}


@pytest.mark.world
@pytest.mark.reference
def test_an_outdated_set_fires_until_the_command_of_the_alert_frees_it(plane: Plane, metrics: Metrics):
    crds = builders.reference(f"{CHART}/{CHARTS[CHART].version}/crds")

    def shell(command: str) -> None:
        env = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
        subprocess.run(["/bin/bash", "-ec", command], env=env, check=True, capture_output=True)

    shell(f"kubectl apply --server-side -f {crds}/actions.github.com_autoscalingrunnersets.yaml")
    runner_set = {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "AutoscalingRunnerSet",
        "metadata": {"name": "gpu-t4", "namespace": "runners-gpu-t4"},
        "spec": {"template": {"spec": {"containers": [{"name": "runner", "image": "x"}]}}},
    }
    plane.wait(lambda: plane.path(runner_set) != "", "the CRD")
    plane.apply(runner_set)
    shell(freeing_command("runners-gpu-t4", "gpu-t4").replace("Pending", "Outdated"))
    [labels] = until(metrics, "GpuCiRunnerSetOutdated")
    assert labels == {"namespace": "runners-gpu-t4", "name": "gpu-t4", "severity": "critical"}
    shell(freeing_command("runners-gpu-t4", "gpu-t4"))
    plane.wait(lambda: "GpuCiRunnerSetOutdated" not in metrics.alerts(), "the end of the alert")
