"""Values of Actions Runner Controller (ARC) and of its runner scale sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.charts import kept_jobs
from fleet.charts.chart import Chart, Pod, fixed, manifests, resources
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID, Level, shared_memory
from fleet.facts.pricing import USD_PER_HOUR
from fleet.facts.scheduling import (
    GPU_RESOURCE,
    PREEMPTING_PRIORITY,
    RUNNER_PRIORITY,
    SAFE_TO_EVICT,
    SYSTEM_SELECTOR,
    Toleration,
    node_choice,
    per_node_annotation,
)
from fleet.facts.versions import RUNNER_IMAGE
from fleet.settings.cluster import Cluster
from fleet.settings.github import APP_SECRET
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner, Runner, RunnerPod

NAMESPACE = "arc-systems"
CONTROLLER = "arc-controller"
QUICKSTART_ACCOUNT = "arc-gha-rs-controller"
"""Service account of the controller after GitHub's quickstart, which is `helm install arc` in `NAMESPACE`. Source: the template
`fullname` in _helpers.tpl of gha-runner-scale-set-controller 0.14.2."""
RUNNER_CONTAINER = "runner"
"""The chart and the controller find the runner's container by this name. The controller gives it the registration of its job."""
_CONTROLLER_POD = Pod(CONTROLLER, 100, 256)
LISTENER = Pod("listener", 50, 128)
"""Each runner set has one listener on the system pool. It waits for jobs."""
LAUNCHER_POD = Pod("launcher", 50, 128)
"""One pod for each runner that is a machine, on the system pool. Their number depends on the jobs, so no chart lists them."""
METRICS_PORT = 8080
"""Port `metrics` of the controller and of every listener, if the controller's chart has it."""
_LISTENER_METRICS = fixed("arc-listener")
GRACE = 90
"""Seconds that a runner has to end its job after Kubernetes asks its pod to stop. A spot node has 120 in all."""
_WAVE_OF_SETS = 5
"""The sets come after all controllers and after the secrets that they need (`WAVE_OF_SECRETS`)."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a runner scale set finds in its cluster. The defaults are for a cluster with this project's other components.

    `namespace` is empty for the set's default namespace. `secret` is the name of the GitHub App's Secret in it. An empty
    `priority_class` means the cluster's default.
    """

    namespace: str = ""
    secret: str = APP_SECRET
    listener_selector: Mapping[str, str] = field(default_factory=lambda: SYSTEM_SELECTOR)
    priority_class: str = RUNNER_PRIORITY.name
    controller_namespace: str = NAMESPACE
    controller_account: str = CONTROLLER
    declares_minimum: bool = True
    """False if a sweep sets `minRunners`. Neither Helm nor ArgoCD then owns the field, so no update reverts it."""


def place_in(cluster: Cluster, runner: Runner | None = None) -> Place:
    """What the runner scale sets of a cluster find in it, and of these the set of `runner`.

    An existing cluster may have its own controller. Runners that may land in a pool with placeholders may end those.
    """
    place = Place(listener_selector=cluster.system_selector)
    if isinstance(runner, PodRunner) and any(cluster.pools[pool].placeholders for pool in runner.ordered):
        place = replace(place, priority_class=PREEMPTING_PRIORITY.name)
    if isinstance(runner, PodRunner) and runner.schedules:
        place = replace(place, declares_minimum=False)
    controller = cluster.found.controller if cluster.found is not None else None
    if controller is None:
        return place
    return replace(place, controller_namespace=controller.namespace, controller_account=controller.service_account)


def installs_controller(cluster: Cluster) -> bool:
    """Whether the program installs the controller. An existing cluster has it already, or needs none without runner sets."""
    return cluster.found is None or (CONTROLLER not in cluster.provided and bool(cluster.runners))


def arc_controller(selector: Mapping[str, str] = SYSTEM_SELECTOR, *, metrics: bool = False) -> Chart:
    """The controller of runner scale sets, on the nodes of `selector`. Each cluster has one.

    With `metrics` it and all listeners have the port `metrics`.
    """
    address = f":{METRICS_PORT}"
    ports = {"controllerManagerAddr": address, "listenerAddr": address, "listenerEndpoint": "/metrics"}
    values = fixed(CONTROLLER) | {"nodeSelector": dict(selector), "resources": resources(_CONTROLLER_POD)}
    values |= {"podSecurityContext": CONFINED_POD, "securityContext": CONFINED} | ({"metrics": ports} if metrics else {})
    folder = "infrastructure/controllers/arc"
    return Chart("gha-runner-scale-set-controller", CONTROLLER, NAMESPACE, values, (_CONTROLLER_POD,), folder)


def pod_scale_set(
    name: str, runner: RunnerPod, github_url: str, group: str, pod: dict[str, Any], *, place: Place, per_node: int
) -> Chart:
    """The scale set of a class of pods: `pod` is the spec of the runner's."""
    annotations = per_node_annotation(per_node)
    more = runner.scale_set_values
    return scale_set(name, runner, github_url, group, pod, annotations=annotations, place=place, more=more)


def job_pod(
    runner: RunnerPod,
    selectors: Sequence[Mapping[str, str]],
    tolerations: Sequence[Toleration],
    runtime_class: str = "",
    resource: str = GPU_RESOURCE,
    *,
    mounts_shm: bool = True,
    usd_per_hour: str = "",
) -> dict[str, Any]:
    """The spec of the pod that has the GPUs of a job, on the nodes of one of `selectors`, the first choice first.

    `tolerations` are those that the nodes need. `runtime_class` is the RuntimeClass that the pod must name to get GPUs, or empty.
    `resource` is the extended resource that the nodes advertise. `mounts_shm` says whether the pod may mount its own /dev/shm.
    `usd_per_hour` is the price of the pod's part of a node, empty if it is unknown.
    """
    pod = runner_pod(runner, tolerations, resource, mounts_shm, usd_per_hour)
    return node_choice(selectors) | pod | ({"runtimeClassName": runtime_class} if runtime_class else {})


def scale_set(
    name: str,
    runner: Runner,
    github_url: str,
    group: str,
    pod: dict[str, Any],
    pod_security: Level = "restricted",
    annotations: Mapping[str, str] | None = None,
    place: Place = Place(),
    more: Mapping[str, Any] | None = None,
) -> Chart:
    """A runner scale set of any kind of runner. ARC starts a pod for each job: `pod` is its spec, `annotations` are its own.

    `more` are further values of the chart.
    """
    priority = {"priorityClassName": place.priority_class} if place.priority_class else {}
    return Chart(
        "gha-runner-scale-set",
        name,
        place.namespace or runner_namespace(name),
        {
            "githubConfigUrl": github_url,
            "githubConfigSecret": place.secret,
            "runnerScaleSetName": name,
            # The chart adds the name as another label.
            "scaleSetLabels": list(runner.labels),
            "runnerGroup": group,
            **({"minRunners": runner.span.min} if place.declares_minimum else {}),
            "maxRunners": runner.span.max,
            # Without this value the chart searches the cluster for the controller, and a preview has no cluster.
            "controllerServiceAccount": {"namespace": place.controller_namespace, "name": place.controller_account},
            "template": {"metadata": {"annotations": {SAFE_TO_EVICT: "false", **(annotations or {})}}, "spec": priority | pod},
            "listenerMetrics": _LISTENER_METRICS,
            "listenerTemplate": {
                "spec": {
                    "nodeSelector": dict(place.listener_selector),
                    "securityContext": CONFINED_POD,
                    "containers": [{"name": "listener", "resources": resources(LISTENER), "securityContext": CONFINED}],
                }
            },
        }
        | dict(more or {}),
        (LISTENER,),
        folder=f"infrastructure/runners/{name}",
        wave=_WAVE_OF_SETS,
        needs=(CONTROLLER,),
        pod_security=pod_security,
    )


def runner_pod(
    runner: RunnerPod,
    tolerations: Sequence[Toleration] = (),
    resource: str = GPU_RESOURCE,
    mounts_shm: bool = True,
    usd_per_hour: str = "",
) -> dict[str, Any]:
    """The spec of a runner's pod, without what selects its nodes."""
    gpu = {resource: runner.gpus} if runner.gpus else {}
    requests = {"cpu": cpu_text(runner.cpu.request), "memory": memory_text(runner.memory.request)} | gpu
    limits = {"cpu": cpu_text(runner.cpu.limit), "memory": memory_text(runner.memory.limit)} | gpu
    driver = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"} if runner.gpus else {}
    env = driver | ({USD_PER_HOUR: usd_per_hour} if usd_per_hour else {})
    shm, keep = [shared_memory(memory_text(runner.shm))] if mounts_shm else [], runner.keep_failed
    mounts = [*shm, *runner.mounts, *kept_jobs.mounts(keep)]
    own = [*({"name": name, "value": value} for name, value in env.items()), *kept_jobs.variables(keep)]
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE,
        "tolerations": manifests(tolerations),
        "securityContext": CONFINED_POD | {"runAsUser": RUNNER_UID, "fsGroup": RUNNER_UID},
        "containers": [
            {
                "name": RUNNER_CONTAINER,
                "image": runner.image or RUNNER_IMAGE,
                "command": ["/home/runner/run.sh"],
                "env": [*own, *runner.variables],
                "resources": {"requests": requests | {"ephemeral-storage": memory_text(runner.disk)}, "limits": limits},
                "securityContext": CONFINED,
                "volumeMounts": [mount.mount for mount in mounts],
            }
        ],
        "volumes": [mount.volume for mount in mounts],
    }
    if runner.service_account is not None:
        pod["serviceAccountName"] = runner.service_account
    if runner.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in runner.pull_secrets]
    return pod if runner.template is None else runner.template.merged(pod, CONFINED)
