"""Values of Actions Runner Controller (ARC) and of its runner scale sets."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fleet.charts import kept_jobs
from fleet.charts.chart import Chart, Pod, fixed, manifests, resources
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID, Mount, shared_memory
from fleet.facts.pricing import USD_PER_HOUR
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.scheduling import GPU_RESOURCE, SYSTEM_SELECTOR, Toleration
from fleet.facts.versions import RUNNER_IMAGE
from fleet.settings.cluster import Cluster
from fleet.settings.existing import Controller
from fleet.settings.runner import RunnerPod

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
GRACE = 90
"""Seconds that a runner has to end its job after Kubernetes asks its pod to stop. A spot node has 120 in all."""


def controller_of(cluster: Cluster) -> Controller:
    """The controller of a cluster's runner scale sets: the program's, unless an existing cluster has its own."""
    own = cluster.found.controller if cluster.found is not None else None
    return own or Controller.model_construct(namespace=NAMESPACE, service_account=CONTROLLER)


def installs_controller(cluster: Cluster) -> bool:
    """Whether the program installs the controller. An existing cluster has it already, or needs none without runner sets."""
    return cluster.found is None or (CONTROLLER not in cluster.provided and bool(cluster.runners))


def arc_controller(selector: Mapping[str, str] = SYSTEM_SELECTOR, *, metrics: bool = False) -> Chart:
    """The controller of runner scale sets, on the nodes of `selector`. Each cluster has one.

    With `metrics` it and all listeners have the port `metrics`.
    """
    address = f":{METRICS_PORT}"
    ports = {"controllerManagerAddr": address, "listenerAddr": address, "listenerEndpoint": "/metrics"}
    values = fixed(CONTROLLER, selector=dict(selector), sizes=resources(_CONTROLLER_POD), metrics=ports if metrics else None)
    folder = "infrastructure/controllers/arc"
    return Chart("gha-runner-scale-set-controller", CONTROLLER, NAMESPACE, values, (_CONTROLLER_POD,), folder)


def agent(runner: RunnerPod, mounts: Collection[Mount]) -> dict[str, Any]:
    """What every pod with GitHub's runner has, by the names in the files of those pods."""
    secrets = [{"name": name} for name in runner.pull_secrets] or None
    listed = {"mounts": [mount.mount for mount in mounts], "volumes": [mount.volume for mount in mounts], "secrets": secrets}
    security = CONFINED_POD | {"runAsUser": RUNNER_UID, "fsGroup": RUNNER_UID}
    return listed | {"confined": CONFINED, "image": runner.image or RUNNER_IMAGE, "security": security}


def runner_pod(
    runner: RunnerPod,
    tolerations: Sequence[Toleration] = (),
    resource: str = GPU_RESOURCE,
    mounts_shm: bool = True,
    usd_per_hour: str = "",
) -> dict[str, Any]:
    """The spec of the pod that has the GPUs of a job, without what selects its nodes.

    `tolerations` are those that the nodes need. `resource` is the extended resource that the nodes advertise. `mounts_shm` says
    whether the pod may mount its own /dev/shm. `usd_per_hour` is the price of the pod's part of a node, empty if it is unknown.
    """
    driver = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"} if runner.gpus else {}
    env = driver | ({USD_PER_HOUR: usd_per_hour} if usd_per_hour else {})
    shm, keep = [shared_memory(memory_text(runner.shm))] if mounts_shm else [], runner.keep_failed
    mounts = [*shm, *runner.mounts, *kept_jobs.mounts(keep)]
    own = [*({"name": name, "value": value} for name, value in env.items()), *kept_jobs.variables(keep)]
    gpu = {resource: runner.gpus} if runner.gpus else {}
    requests = {"cpu": cpu_text(runner.cpu.request), "memory": memory_text(runner.memory.request), **gpu}
    limits = {"cpu": cpu_text(runner.cpu.limit), "memory": memory_text(runner.memory.limit), **gpu}
    sizes = {"requests": requests | {"ephemeral-storage": memory_text(runner.disk)}, "limits": limits}
    placed = {"account": runner.service_account, "grace": GRACE, "sizes": sizes, "tolerations": manifests(tolerations)}
    pod = fixed("runner-pod", **agent(runner, mounts), **placed, env=[*own, *runner.variables])
    return pod if runner.template is None else runner.template.merged(pod, CONFINED)
