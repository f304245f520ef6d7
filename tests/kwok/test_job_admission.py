"""What a real API server admits in the namespace of a class's jobs: the pods that GitHub's hooks make, and none beside them."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import NO_GPU, RUNNER_PRIORITY
from fleet.render.container_jobs import container_jobs
from tests.fleet.test_container_jobs import JOBS, fleet_of_two_pools, pods
from tests.kwok.server import ServerApi, api_server, apply, missing

Change = Callable[[dict[str, Any]], Any]
_PATIENCE = 30


def install(api: ServerApi, of_set: PodSet) -> None:
    """Everything that a class's jobs need, as the program renders it."""
    priority = manifest("scheduling.k8s.io/v1", "PriorityClass", RUNNER_PRIORITY.name) | {"value": RUNNER_PRIORITY.value}
    apply(api, [priority, manifest("v1", "Namespace", of_set.home), *container_jobs(of_set)])


def made(of_set: PodSet, *services: str, file: str = "job.json") -> dict[str, Any]:
    """The pod that GitHub's hooks create from a template, with their own init container."""
    template = copy.deepcopy(of_set.templates[file])
    parts = {part["name"]: part for part in template["spec"]["containers"]}
    beside = [parts["$service"] | {"name": name, "image": f"{name}:1"} for name in services]
    template["spec"]["containers"] = [parts["$job"] | {"name": "job", "image": "cuda:1"}, *beside]
    start = {"name": "fs-init", "image": "runner:1", "command": ["true"], "env": [NO_GPU]}
    confined = (
        {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}} if of_set.pod_security == "restricted" else {}
    )
    template["spec"]["initContainers"] = [start | {"securityContext": {"runAsUser": 1001, **confined}}]
    name = {"name": "runner-workflow", "labels": {"runner-pod": "runner"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | name, "spec": template["spec"]}


def refusal(api: ServerApi, pod: dict[str, Any], namespace: str = JOBS, query: str = "?dryRun=All") -> str:
    """Why the API server refuses a pod; empty if it admits it. Without the query it keeps the pod."""
    # A sweep reads no message of a refusal, so its client drops them.
    connection, token = api._connection(), api._token
    assert token is not None
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token.read_text(encoding='ascii')}"}
    connection.request("POST", f"/api/v1/namespaces/{namespace}/pods{query}", json.dumps(pod).encode(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return "" if answer.status < 400 else text


def _limits(pod: dict[str, Any], at: int = 0) -> dict[str, Any]:
    amounts: dict[str, Any] = pod["spec"]["containers"][at]["resources"]["limits"]
    return amounts


def _gpus(count: int, at: int = 0, name: str = "nvidia.com/gpu") -> Change:
    def change(pod: dict[str, Any]) -> None:
        for amounts in pod["spec"]["containers"][at]["resources"].values():
            amounts[name] = count

    return change


def _without_choice(pod: dict[str, Any]) -> None:
    pod["spec"].pop("nodeSelector", None)
    pod["spec"].pop("affinity", None)


def _elsewhere(pod: dict[str, Any]) -> None:
    _without_choice(pod)
    pod["spec"]["nodeSelector"] = {"gpu-ci/pool": "h100"}


REFUSED: dict[str, tuple[Change, str]] = {
    "a pod without a runner": (lambda pod: pod["metadata"].pop("labels"), "only the runner's hooks make pods here"),
    "another account": (lambda pod: pod["spec"].update(serviceAccountName="default"), "has the service account jobs"),
    "a token": (lambda pod: pod["spec"].update(automountServiceAccountToken=True), "no token of the API server"),
    "a node": (lambda pod: pod["spec"].update(nodeName="a"), "the scheduler chooses the node"),
    "another pool": (_elsewhere, "runs on the pools of its class"),
    "any pool": (_without_choice, "runs on the pools of its class"),
    "another priority": (
        lambda pod: pod["spec"].update(priorityClassName="system-node-critical"),
        "priority class gpu-ci-runner",
    ),
    "every taint": (lambda pod: pod["spec"].update(tolerations=[{"operator": "Exists"}]), "tolerates the taints"),
    "more GPUs": (_gpus(8), "a job of this class has 1 nvidia.com/gpu"),
    "a GPU of a service": (_gpus(1, at=1), "a job of this class has 1 nvidia.com/gpu"),
    "other GPUs": (_gpus(1, name="amd.com/gpu"), "a job of this class has 1 nvidia.com/gpu"),
    "a GPU of an init container": (
        lambda pod: pod["spec"]["initContainers"][0].update(
            resources={"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}}
        ),
        "a job of this class has 1 nvidia.com/gpu",
    ),
    "devices by a claim": (
        lambda pod: pod["spec"].update(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
        "claims no devices",
    ),
    "a service that asks NVIDIA's runtime for GPUs": (
        lambda pod: pod["spec"]["containers"][1]["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}),
        "only the job's container sees GPUs",
    ),
    "a service that hides no GPU": (lambda pod: pod["spec"]["containers"][1].pop("env"), "only the job's container sees GPUs"),
    "a job that asks NVIDIA's runtime for GPUs": (
        lambda pod: pod["spec"]["containers"][0]["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}),
        "those that kubelet gives it",
    ),
    "a job that asks for them by a Secret": (
        lambda pod: pod["spec"]["containers"][0].update(envFrom=[{"secretRef": {"name": "own"}}]),
        "those that kubelet gives it",
    ),
    "an init container that hides no GPU": (
        lambda pod: pod["spec"]["initContainers"][0].pop("env"),
        "an init container sees no GPU",
    ),
    "a third service": (
        lambda pod: pod["spec"]["containers"].append(pod["spec"]["containers"][1] | {"name": "third"}),
        "at most 1 services; raise services.most of the class",
    ),
    "more memory": (lambda pod: _limits(pod).update(memory="64Gi"), "maximum memory usage per Container is 16Gi"),
    "privileges": (
        lambda pod: pod["spec"]["containers"][0].update(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "violates PodSecurity",
    ),
    "the host's network": (lambda pod: pod["spec"].update(hostNetwork=True), "violates PodSecurity"),
    "a host's port": (
        lambda pod: pod["spec"]["containers"][1].update(ports=[{"containerPort": 6379, "hostPort": 6379}]),
        "violates PodSecurity",
    ),
    "a host's folder": (
        lambda pod: pod["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
        "violates PodSecurity",
    ),
}


def two_pools(**changes: Any) -> PodSet:
    return pods(fleet_of_two_pools(**changes))


@pytest.mark.kwok
@pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")
@pytest.mark.parametrize("make", [pods, two_pools], ids=["one pool", "two pools"])
@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_the_api_server_admits_the_hooks_pods_and_no_others(tmp_path: Path, make: Callable[..., PodSet], level: str) -> None:
    of_set = make(podSecurity=level, services={"most": 1})
    with api_server(tmp_path) as api:
        install(api, of_set)
        end = time.monotonic() + _PATIENCE
        # The API server compiles a new policy a moment after it is there.
        while not refusal(api, {**made(of_set), "metadata": {"name": "early"}}):
            assert time.monotonic() < end, "the policy judges no pod"
            time.sleep(0.1)
        assert refusal(api, made(of_set)) == ""
        assert refusal(api, made(of_set, "redis")) == ""
        assert refusal(api, made(of_set, file="step.json")) == ""
        for name, (change, rule) in REFUSED.items():
            pod = made(of_set, "redis")
            change(pod)
            assert rule in refusal(api, pod), name
