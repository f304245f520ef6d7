"""Values of runner scale sets whose runners are OCI machines: the runner pod is a launcher on the system pool.

ARC gives the launcher the registration of one job. The launcher passes it to one machine and runs until that machine is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any

from fleet.charts import arc
from fleet.charts.arc import LAUNCHER_POD, scale_set
from fleet.charts.chart import Chart, resources
from fleet.facts.pods import CONFINED, Level
from fleet.facts.scheduling import SYSTEM_SELECTOR, machine_annotations
from fleet.facts.versions import CNCF_LAUNCHER_IMAGE, LAUNCHER_IMAGE
from fleet.facts.yaml_text import read_yaml
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner

LAUNCHER = "launcher"
"""Name of the launcher's ServiceAccount and of its ConfigMap, in the set's namespace."""
LAUNCHER_PROGRAM = "launcher.py"
LAUNCHER_SETTINGS = "launcher.json"
"""Keys of the ConfigMap. The settings hold ids that are unknown until the network exists, so they cannot be chart values."""
_PODS: Any = read_yaml(Path(__file__).with_name("launcher-pods.yaml")).value
"""The pods of both launchers, without what settings decide."""
_PATIENCE = 600
"""Seconds that a launcher has to terminate its machine after Kubernetes asks its pod to stop."""


def launcher_set(
    name: str,
    runner: MachineRunner,
    github_url: str,
    group: str,
    *,
    region: str,
    compartment: str,
    selector: Mapping[str, str] = SYSTEM_SELECTOR,
    place: arc.Place | None = None,
) -> Chart:
    """One runner scale set of OCI machines.

    `region` is the region of the cluster. `compartment` is the OCID of the compartment for the machines. `selector` are the
    labels of the nodes for launchers. `place` is what the set finds in its cluster; default: as the program installs it.
    """
    level: Level = "restricted"
    if isinstance(runner, VmPerJobRunner) and not runner.booted_here:
        arguments, level = _cncf_arguments(runner, compartment), "baseline"
        pod = _pod("cncf", runner.launcher_image or CNCF_LAUNCHER_IMAGE, args=arguments)
    else:
        pod = _own_pod(runner, region)
    common = {"nodeSelector": dict(selector), "terminationGracePeriodSeconds": _PATIENCE}
    return scale_set(name, runner, github_url, group, common | pod, level, _machine(runner), place or arc.Place())


def _machine(runner: MachineRunner) -> dict[str, str]:
    """The pod's annotations about the machine that it boots; none for a standing machine."""
    if not isinstance(runner, VmPerJobRunner):
        return {}
    return machine_annotations(
        shapes=runner.shapes,
        capacity=runner.capacity,
        disk_gb=runner.disk // 1024,
        regions=[place.region for place in runner.places],
    )


def _own_pod(runner: MachineRunner, region: str) -> dict[str, Any]:
    pod = _pod("own", runner.launcher_image or LAUNCHER_IMAGE)
    (variable,) = (each for each in pod["containers"][0]["env"] if each["name"] == "OCI_RESOURCE_PRINCIPAL_REGION")
    variable["value"] = region
    return pod


def _pod(kind: str, image: str, **more: Any) -> dict[str, Any]:
    """A launcher's pod. `more` is what settings decide of its container besides the image."""
    pod: dict[str, Any] = deepcopy(_PODS[kind])
    secure = CONFINED | {"readOnlyRootFilesystem": True}
    pod["containers"][0] |= {"image": image, "resources": resources(LAUNCHER_POD), "securityContext": secure, **more}
    return pod


def _cncf_arguments(runner: VmPerJobRunner, compartment: str) -> list[str]:
    first, *rest = runner.places
    return [
        "--arch=amd64",
        f"--shape={','.join(runner.shapes)}",
        f"--compartment-id={compartment}",
        f"--region={first.region}",
        f"--availability-domain={','.join(first.availability_domains)}",
        f"--subnet-id={first.subnet}",
        # Without domains the launcher never tries the fallback. Without the arguments it would use CNCF's own defaults.
        *chain.from_iterable(map(_fallback, rest or (first.model_copy(update={"availability_domains": ()}),))),
        f"--preemptible={'true' if runner.capacity == 'spot' else 'false'}",
        # Empty, because otherwise the launcher needs access to a ConfigMap and a job that restarts lost jobs.
        "--preemption-queue-configmap=",
        f"--boot-volume-size-gb={runner.disk // 1024}",
    ]


def _fallback(place: Place) -> tuple[str, ...]:
    """The arguments for a second place."""
    return (
        f"--fallback-region={place.region}",
        f"--fallback-availability-domain={','.join(place.availability_domains)}",
        f"--fallback-subnet-id={place.subnet}",
    )
