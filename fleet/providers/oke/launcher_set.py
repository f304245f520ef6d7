"""Values of runner scale sets whose runners are OCI machines: the runner pod is a launcher on the system pool.

ARC gives the launcher the registration of one job. The launcher passes it to one machine and runs until that machine is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from fleet.charts import arc
from fleet.charts.arc import LAUNCHER_POD, RUNNER_CONTAINER, scale_set
from fleet.charts.chart import Chart, resources
from fleet.facts.pods import CONFINED, CONFINED_POD, Level
from fleet.facts.scheduling import SYSTEM_SELECTOR, machine_annotations
from fleet.facts.versions import CNCF_LAUNCHER_IMAGE, LAUNCHER_IMAGE
from fleet.providers.oke.vm_runner import MachineRunner, Place, VmPerJobRunner

LAUNCHER = "launcher"
"""Name of the launcher's ServiceAccount and of its ConfigMap, in the set's namespace."""
LAUNCHER_PROGRAM = "launcher.py"
LAUNCHER_SETTINGS = "launcher.json"
"""Keys of the ConfigMap. The settings hold ids that are unknown until the network exists, so they cannot be chart values."""
LAUNCHER_FOLDER = "/etc/gpu-ci"
"""Where the ConfigMap is mounted."""
LAUNCHER_UID = 10001
"""A user that the image does not have: the files that the launcher reads are readable by all users of its pod."""
CNCF_CONFIG_SECRET = "oci-config"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
CNCF_KEY_SECRET = "oci-api-key"  # noqa: S105 - the name of a Kubernetes Secret, not a secret

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
        pod, level = _cncf_pod(runner, compartment), "baseline"
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
    """This project's launcher: Python with Oracle's SDK, which signs as the pod's own workload."""
    environment = {
        # The kind of identity that the SDK uses, and the region whose API it calls.
        "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
        "OCI_RESOURCE_PRINCIPAL_REGION": region,
        # Print each line to the log at once.
        "PYTHONUNBUFFERED": "1",
    }
    return {
        "serviceAccountName": LAUNCHER,
        # OKE exchanges this token for OCI permissions. The account has no Kubernetes permissions, and no job runs in this pod.
        "automountServiceAccountToken": True,
        "securityContext": CONFINED_POD | {"runAsUser": LAUNCHER_UID, "runAsGroup": LAUNCHER_UID},
        "containers": [
            {
                "name": RUNNER_CONTAINER,
                "image": runner.launcher_image or LAUNCHER_IMAGE,
                "command": ["python3", f"{LAUNCHER_FOLDER}/{LAUNCHER_PROGRAM}"],
                "env": [
                    # The launcher finds its machine by this name. The host name would be cut at 63 characters.
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    *({"name": key, "value": value} for key, value in environment.items()),
                ],
                "resources": resources(LAUNCHER_POD),
                "securityContext": CONFINED | {"readOnlyRootFilesystem": True},
                "volumeMounts": [
                    {"name": LAUNCHER, "mountPath": LAUNCHER_FOLDER, "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a mount point, not a temporary file
                ],
            }
        ],
        "volumes": [{"name": LAUNCHER, "configMap": {"name": LAUNCHER}}, {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }


def _cncf_pod(runner: VmPerJobRunner, compartment: str) -> dict[str, Any]:
    """CNCF's published launcher (cncf/automation@fab8b644 ci/cloudrunners/oci).

    Its image runs as root and was never tested as another user. So there is no `runAsNonRoot`, and the namespace has level
    baseline. It writes no file and needs no capability. It signs with a user's API key, from two Secrets that you create in the
    namespace. The chart's service account has no permissions.
    """
    return {
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": RUNNER_CONTAINER,
                "image": runner.launcher_image or CNCF_LAUNCHER_IMAGE,
                # No command: the image's entry point chooses the cloud.
                "args": _cncf_arguments(runner, compartment),
                "env": [{"name": "OCI_CONFIG_FILE", "value": "/etc/oci/config"}],
                "resources": resources(LAUNCHER_POD),
                "securityContext": CONFINED | {"readOnlyRootFilesystem": True},
                "volumeMounts": [
                    {"name": CNCF_CONFIG_SECRET, "mountPath": "/etc/oci", "readOnly": True},
                    {"name": CNCF_KEY_SECRET, "mountPath": "/oci", "readOnly": True},
                ],
            }
        ],
        "volumes": [{"name": secret, "secret": {"secretName": secret}} for secret in (CNCF_CONFIG_SECRET, CNCF_KEY_SECRET)],
    }


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
