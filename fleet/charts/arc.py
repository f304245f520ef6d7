"""Values of Actions Runner Controller (ARC) and of its runner scale sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.charts.chart import Chart, Pod, manifests, resources
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID, Level
from fleet.facts.scheduling import (
    GPU_RESOURCE,
    GPU_TOLERATION,
    RUNNER_PRIORITY,
    SAFE_TO_EVICT,
    SYSTEM_SELECTOR,
    Toleration,
    pool_selector,
)
from fleet.facts.versions import RUNNER_IMAGE
from fleet.settings.cluster import Cluster
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner, Runner

NAMESPACE = "arc-systems"
CONTROLLER = "arc-controller"
APP_SECRET = "github-app"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
RUNNER_CONTAINER = "runner"
"""The chart and the controller find the runner's container by this name. The controller gives it the registration of its job."""
_CONTROLLER_POD = Pod(CONTROLLER, 100, 256)
LISTENER = Pod("listener", 50, 128)
"""Each runner set has one listener on the system pool. It waits for jobs."""
_WAVE_OF_SETS = 5
"""The sets come after all controllers and after the secrets that they need (`WAVE_OF_SECRETS`)."""


@dataclass(frozen=True, slots=True)
class Arc:
    """ARC in one cluster: namespace and service account of its controller. `system` are node labels of controller and listeners.

    `ours`: the program installs the controller.
    """

    namespace: str = NAMESPACE
    account: str = CONTROLLER
    system: Mapping[str, str] = field(default_factory=lambda: SYSTEM_SELECTOR)
    ours: bool = True


def arc_of(cluster: Cluster) -> Arc:
    """ARC as a cluster has it. An existing cluster without runner sets gets no controller."""
    controller = cluster.found.controller if cluster.found is not None else None
    if controller is None:
        return Arc(system=cluster.system_selector, ours=cluster.found is None or bool(cluster.runners))
    return Arc(controller.namespace, controller.service_account, cluster.system_selector, ours=False)


def arc_controller(system: Mapping[str, str] = SYSTEM_SELECTOR) -> Chart:
    """The controller of runner scale sets, on nodes with the labels `system`. Each cluster has one."""
    return Chart(
        "gha-runner-scale-set-controller",
        CONTROLLER,
        NAMESPACE,
        {
            "fullnameOverride": CONTROLLER,
            "serviceAccount": {"name": CONTROLLER},
            "nodeSelector": dict(system),
            "resources": resources(_CONTROLLER_POD),
            "podSecurityContext": CONFINED_POD,
            "securityContext": CONFINED,
            "flags": {
                "logLevel": "info",
                "logFormat": "json",
                # ArgoCD finds its own objects by this label. It would delete objects that the controller creates with it (#3533).
                "excludeLabelPropagationPrefixes": ["argocd.argoproj.io/instance"],
            },
        },
        (_CONTROLLER_POD,),
        folder="infrastructure/controllers/arc",
    )


def runner_set(
    name: str,
    runner: PodRunner,
    github_url: str,
    group: str,
    tolerations: Sequence[Toleration] = (GPU_TOLERATION,),
    runtime_class: str = "",
    resource: str = GPU_RESOURCE,
    *,
    mounts_shm: bool = True,
    arc: Arc | None = None,
    selector: Mapping[str, str] | None = None,
) -> Chart:
    """One runner scale set: ephemeral runners as pods on one pool.

    `tolerations` are those that the pool's nodes need. `runtime_class` is the RuntimeClass that the pod must name to get GPUs, or
    empty. `resource` is the extended resource that the pool's nodes advertise. `mounts_shm` says whether the pod may mount its
    own /dev/shm. `arc` is the cluster's ARC; default: as the program installs it. `selector` are the labels of
    the pool's nodes; default: those that the program sets.
    """
    pod = _runner_pod(runner, selector or pool_selector(runner.pool), tolerations, resource, mounts_shm) | (
        {"runtimeClassName": runtime_class} if runtime_class else {}
    )
    return scale_set(name, runner, github_url, group, pod, arc=arc)


def scale_set(
    name: str,
    runner: Runner,
    github_url: str,
    group: str,
    pod: dict[str, Any],
    pod_security: Level = "restricted",
    annotations: Mapping[str, str] | None = None,
    arc: Arc | None = None,
) -> Chart:
    """A runner scale set of any kind of runner. ARC starts a pod for each job: `pod` is its spec, `annotations` are its own."""
    there = arc or Arc()
    return Chart(
        "gha-runner-scale-set",
        name,
        runner_namespace(name),
        {
            "githubConfigUrl": github_url,
            "githubConfigSecret": APP_SECRET,
            "runnerScaleSetName": name,
            # The chart adds the name as another label.
            "scaleSetLabels": list(runner.labels),
            "runnerGroup": group,
            "minRunners": runner.span.min,
            "maxRunners": runner.span.max,
            # Without this value the chart searches the cluster for the controller, and a preview has no cluster.
            "controllerServiceAccount": {"namespace": there.namespace, "name": there.account},
            "template": {
                "metadata": {"annotations": {SAFE_TO_EVICT: "false", **(annotations or {})}},
                "spec": {"priorityClassName": RUNNER_PRIORITY.name} | pod,
            },
            "listenerTemplate": {
                "spec": {
                    "nodeSelector": dict(there.system),
                    "securityContext": CONFINED_POD,
                    "containers": [{"name": "listener", "resources": resources(LISTENER), "securityContext": CONFINED}],
                }
            },
        },
        (LISTENER,),
        folder=f"infrastructure/runners/{name}",
        wave=_WAVE_OF_SETS,
        needs=(CONTROLLER,) if there.ours else (),
        pod_security=pod_security,
    )


def _runner_pod(
    runner: PodRunner, selector: Mapping[str, str], tolerations: Sequence[Toleration], resource: str, mounts_shm: bool
) -> dict[str, Any]:
    gpu = {resource: runner.gpus}
    requests = {"cpu": cpu_text(runner.cpu.request), "memory": memory_text(runner.memory.request)} | gpu
    limits = {"cpu": cpu_text(runner.cpu.limit), "memory": memory_text(runner.memory.limit)} | gpu
    shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": memory_text(runner.shm)}}
    return {
        "automountServiceAccountToken": False,
        "nodeSelector": dict(selector),
        "tolerations": manifests(tolerations),
        "securityContext": CONFINED_POD | {"runAsUser": RUNNER_UID, "fsGroup": RUNNER_UID},
        "containers": [
            {
                "name": RUNNER_CONTAINER,
                "image": runner.image or RUNNER_IMAGE,
                "command": ["/home/runner/run.sh"],
                "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
                "resources": {"requests": requests | {"ephemeral-storage": memory_text(runner.scratch)}, "limits": limits},
                "securityContext": CONFINED,
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}] if mounts_shm else [],  # noqa: S108 - a mount point
            }
        ],
        "volumes": [shm] if mounts_shm else [],
    }
