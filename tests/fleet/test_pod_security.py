"""Pods of our charts' values pass the Pod Security Standard that their namespaces enforce (kubernetes.io)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from fleet.charts.arc import arc_controller
from fleet.charts.chart import Chart
from fleet.charts.device_plugin import device_plugin
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner
from fleet.settings.model import CpuSpan, MemorySpan, Scale
from fleet.settings.runner import PodRunner
from tests.builders import vm, vm_per_job
from tests.cases import cases
from tests.charts import launcher_set, runner_set

URL = "https://github.com/example"
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

# Of volumes, `restricted` takes these alone, and `baseline` all but folders of the host.
_VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")


def forbidden(pod: dict[str, Any]) -> list[str]:
    """What `baseline` forbids, for the fields that our pods have."""
    found = [f"host {key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    found += [f"volume {kind}" for volume in pod.get("volumes", []) for kind in volume if kind == "hostPath"]
    for context in (pod.get("securityContext", {}), *map(_own, _containers(pod))):
        if context.get("privileged"):
            found.append("privileged")
        if context.get("capabilities", {}).get("add"):
            found.append("added capabilities")
        if context.get("seccompProfile", {}).get("type") == "Unconfined":
            found.append("seccomp unconfined")
    return found


def violations(pod: dict[str, Any]) -> list[str]:
    """What `restricted` forbids, for the fields that our pods have."""
    found = forbidden(pod)
    context = pod.get("securityContext", {})
    for volume in pod.get("volumes", []):
        found += [f"volume {kind}" for kind in volume if kind not in ("name", "hostPath", *_VOLUMES)]
    for own in map(_own, _containers(pod)):
        if own.get("allowPrivilegeEscalation") is not False:
            found.append("privilege escalation")
        if own.get("capabilities", {}).get("drop") != ["ALL"]:
            found.append("capabilities")
        if not (own.get("runAsNonRoot") or context.get("runAsNonRoot")):
            found.append("root")
        if context.get("runAsUser") == 0 or own.get("runAsUser") == 0:
            found.append("user 0")
        if (own.get("seccompProfile") or context.get("seccompProfile", {})).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append("seccomp")
    return found


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def _own(container: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = container.get("securityContext", {})
    return found


def launcher(runner: MachineRunner) -> Chart:
    return launcher_set("oci", runner, URL, "gpu", region="us-sanjose-1", compartment="ocid1.compartment.oc1..example")


def cncf() -> VmPerJobRunner:
    settings = vm_per_job(launcher="cncf")
    settings["places"][0]["subnet"] = "ocid1.subnet.oc1..example"
    del settings["image"]
    return TypeAdapter(VmPerJobRunner).validate_json(json.dumps(settings))


def controller_pod() -> dict[str, Any]:
    values = arc_controller().values
    return {"securityContext": values["podSecurityContext"], "containers": [{"securityContext": values["securityContext"]}]}


PODS = runner_set("gpu", RUNNER, URL, "gpu")
STANDING = launcher(TypeAdapter(VmRunner).validate_json(json.dumps(vm())))
PER_JOB = launcher(TypeAdapter(VmPerJobRunner).validate_json(json.dumps(vm_per_job())))
CNCF = launcher(cncf())


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(PODS.values["template"]["spec"], id="runner"),
        pytest.param(STANDING.values["template"]["spec"], id="launcher of a standing machine"),
        pytest.param(PER_JOB.values["template"]["spec"], id="launcher of a machine per job"),
        pytest.param(PODS.values["listenerTemplate"]["spec"], id="listener, in the controller's namespace"),
        pytest.param(controller_pod(), id="controller"),
    ],
)
def test_pods_pass_the_standard_of_their_namespace(pod):
    assert violations(pod) == [], "the API server would refuse the pod and no runner would ever start"


@cases(
    ("chart", "level"),
    [
        (arc_controller(), "restricted"),
        (PODS, "restricted"),
        (STANDING, "restricted"),
        (PER_JOB, "restricted"),
        (CNCF, "baseline"),
        (device_plugin(), "privileged"),
    ],
)
def test_a_namespace_enforces_the_tightest_standard_that_its_pods_pass(chart, level):
    assert chart.pod_security == level


def test_cncfs_launcher_passes_baseline_and_all_of_restricted_but_its_user():
    pod = CNCF.values["template"]["spec"]
    assert forbidden(pod) == []
    assert violations(pod) == ["root"], "its image runs as root"


def test_the_check_finds_a_privileged_pod():
    pod = {"containers": [{"securityContext": {"privileged": True}}], "volumes": [{"hostPath": {"path": "/"}}]}
    assert forbidden(pod) == ["volume hostPath", "privileged"]
    assert violations(pod) == [*forbidden(pod), "privilege escalation", "capabilities", "root", "seccomp"]


def test_the_check_finds_what_only_restricted_forbids():
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"securityContext": confined}],
        "volumes": [{"name": "shared", "nfs": {"server": "files.example.com"}}],
    }
    assert forbidden(pod) == []
    assert violations(pod) == ["volume nfs", "user 0"]
