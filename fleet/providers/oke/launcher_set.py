"""Values of runner scale sets whose runners are OCI machines: the runner pod is a launcher on the system pool.

ARC gives the launcher the registration of one job. The launcher passes it to one machine and runs until that machine is gone.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from fleet.charts.arc import RUNNER_CONTAINER, scale_set
from fleet.charts.chart import Chart, Pod, resources
from fleet.facts.pods import CONFINED, CONFINED_POD, Level
from fleet.facts.scheduling import SYSTEM_POOL, machine_annotations, pool_selector
from fleet.facts.versions import CNCF_LAUNCHER_IMAGE, LAUNCHER_IMAGE
from fleet.providers.oke.disk import disk_gb
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
LAUNCHER_POD = Pod(LAUNCHER, 50, 128)
"""One per machine, on the system pool. Their number is that of the jobs, so no chart has them among its pods."""
CNCF_CONFIG_SECRET = "oci-config"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
CNCF_KEY_SECRET = "oci-api-key"  # noqa: S105 - the name of a Kubernetes Secret, not a secret

_PATIENCE = 600
"""Seconds that a launcher has to terminate its machine when its pod is told to stop."""


def launcher_set(name: str, runner: MachineRunner, github_url: str, group: str, *, region: str, compartment: str) -> Chart:
    """One runner scale set of OCI machines.

    `region` is the cluster's, `compartment` the OCID of the one that machines are made in.
    """
    if isinstance(runner, VmPerJobRunner) and not runner.booted_here:
        return _set(name, runner, github_url, group, _cncf_pod(runner, compartment), "baseline")
    return _set(name, runner, github_url, group, _own_pod(runner, region), "restricted")


def _set(name: str, runner: MachineRunner, github_url: str, group: str, pod: dict[str, Any], level: Level) -> Chart:
    common = {"nodeSelector": pool_selector(SYSTEM_POOL), "terminationGracePeriodSeconds": _PATIENCE}
    return scale_set(name, runner, github_url, group, common | pod, level, _machine(runner))


def _machine(runner: MachineRunner) -> dict[str, str]:
    """The pod's annotations about the machine that it boots; none for a standing machine."""
    if not isinstance(runner, VmPerJobRunner):
        return {}
    return machine_annotations(
        shapes=runner.shapes,
        capacity=runner.capacity,
        disk_gb=disk_gb(runner.disk),
        regions=[place.region for place in runner.places],
    )


def _own_pod(runner: MachineRunner, region: str) -> dict[str, Any]:
    """This project's launcher: Python with Oracle's SDK, which signs as the pod's own workload."""
    environment = {
        # The kind of identity that the SDK uses, and the region whose API it calls.
        "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
        "OCI_RESOURCE_PRINCIPAL_REGION": region,
        # Lines reach the log when they are written.
        "PYTHONUNBUFFERED": "1",
    }
    return {
        "serviceAccountName": LAUNCHER,
        # OKE exchanges this token for rights in OCI. The account has no rights in Kubernetes, and no job runs in this pod.
        "automountServiceAccountToken": True,
        "securityContext": CONFINED_POD | {"runAsUser": LAUNCHER_UID, "runAsGroup": LAUNCHER_UID},
        "containers": [
            {
                "name": RUNNER_CONTAINER,
                "image": runner.launcher_image or LAUNCHER_IMAGE,
                "command": ["python3", f"{LAUNCHER_FOLDER}/{LAUNCHER_PROGRAM}"],
                "env": [
                    # Not the host name, which is cut at 63 characters: by this name a launcher finds its machine.
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

    It runs as root in its image and was never tried as another user: hence no `runAsNonRoot`, and a namespace of level baseline.
    It writes no file, and needs no capability to read secrets and to call OCI. It signs with the API key of a user, which is in
    two Secrets that their owner creates in the namespace. The chart's own account has no rights.
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
        *(chain.from_iterable(map(_fallback, rest)) if rest else _no_fallback(first)),
        f"--preemptible={'true' if runner.capacity == 'spot' else 'false'}",
        # Empty: without it the launcher wants rights on a ConfigMap, and a job of its own that runs lost jobs again.
        "--preemption-queue-configmap=",
        f"--boot-volume-size-gb={disk_gb(runner.disk)}",
    ]


def _fallback(place: Place) -> tuple[str, ...]:
    return (
        f"--fallback-region={place.region}",
        f"--fallback-availability-domain={','.join(place.availability_domains)}",
        f"--fallback-subnet-id={place.subnet}",
    )


def _no_fallback(place: Place) -> tuple[str, ...]:
    """The three arguments that switch off CNCF's own defaults: a place without domains is never tried."""
    return (f"--fallback-region={place.region}", "--fallback-availability-domain=", f"--fallback-subnet-id={place.subnet}")
