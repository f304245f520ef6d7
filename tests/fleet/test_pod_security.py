"""Pods of our charts' values pass the Pod Security Standard that their namespaces enforce (kubernetes.io, `restricted`)."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import charts
from fleet.model import CpuSpan, MemorySpan, Scale
from fleet.runner import PodRunner

RUNNER = PodRunner.model_construct(
    pool="t4",
    gpus=1,
    cpu=CpuSpan.model_construct(request=4000, limit=8000),
    memory=MemorySpan.model_construct(request=16384, limit=28672),
    shm=2048,
    scratch=20480,
    labels=(),
    image=None,
    scale=Scale.model_construct(min=0, max=1),
)


def violations(pod: dict[str, Any]) -> list[str]:
    """What `restricted` forbids, for the fields that our pods have."""
    found = [f"host {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    context = pod.get("securityContext", {})
    for volume in pod.get("volumes", []):
        found += [f"volume {kind}" for kind in volume if kind in ("hostPath", "nfs")]
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        own = container.get("securityContext", {})
        if own.get("privileged"):
            found.append("privileged")
        if own.get("allowPrivilegeEscalation") is not False:
            found.append("privilege escalation")
        if own.get("capabilities", {}).get("drop") != ["ALL"]:
            found.append("capabilities")
        if not (own.get("runAsNonRoot") or context.get("runAsNonRoot")):
            found.append("root")
        if (own.get("seccompProfile") or context.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append("seccomp")
    return found


def runner_set() -> dict[str, Any]:
    return charts.runner_set("gpu", RUNNER, "https://github.com/example", "gpu").values


def controller_pod() -> dict[str, Any]:
    values = charts.arc_controller().values
    return {"securityContext": values["podSecurityContext"], "containers": [{"securityContext": values["securityContext"]}]}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(runner_set()["template"]["spec"], id="runner"),
        pytest.param(runner_set()["listenerTemplate"]["spec"], id="listener, in the controller's namespace"),
        pytest.param(controller_pod(), id="controller"),
    ],
)
def test_pods_pass_the_standard_of_their_namespace(pod):
    assert violations(pod) == [], "the API server would refuse the pod and no runner would ever start"


def test_the_check_finds_a_privileged_pod():
    pod = {"containers": [{"securityContext": {"privileged": True}}], "volumes": [{"hostPath": {"path": "/"}}]}
    assert violations(pod) == ["volume hostPath", "privileged", "privilege escalation", "capabilities", "root", "seccomp"]
