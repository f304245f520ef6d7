"""Jobs in containers: the pod of their runner, and the templates of the pods that GitHub's hooks make for them.

The runner makes no container itself. It starts hooks, and these make a pod for the job and one for each container action. Facts:
actions/runner-container-hooks 0.8.1, packages/k8s/src.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.charts.arc import agent
from fleet.charts.chart import Pod, fixed
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID, Mount
from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.scheduling import CONTAINER_JOBS, NO_GPU, SAFE_TO_EVICT
from fleet.settings.container_jobs import ContainerFields, Services
from fleet.settings.model import CpuSpan, MemorySpan
from fleet.settings.pod_template import CaBundle, PodFields
from fleet.settings.runner import PodRunner, RunnerPod

ACCOUNT = "runner"
"""The service account of runners. It may make pods in the namespace of their jobs, and has no right in its own."""
JOBS_ACCOUNT = "jobs"
"""The service account of the jobs' pods of a class that names none. It has no rights."""
OWN_POD = Pod("runner", 250, 512)
"""A runner's own pod. No step runs in it."""
_OWN_DISK = 2048
"""Disk for the runner's files, in MiB: actions, logs, and the workspace while the hooks copy it to a container action."""
JOB, SERVICE = "$job", "$service"
"""Containers of a template: GitHub's hooks merge the first into the job's container, our hook the second into each service."""
_FOLDER = "/etc/gpu-ci/hooks"
_HOOK = Path(__file__).with_name("container-jobs.js")


def hook() -> str:
    """The program that the runner starts for each container of a job."""
    return _HOOK.read_text(encoding="utf-8")


def job_account(runner: PodFields) -> str:
    """The service account of the jobs' pods."""
    return runner.service_account or JOBS_ACCOUNT


def own_runner(runner: PodRunner) -> PodRunner:
    """The runners' own pods of a class, as a class without GPUs on their pool. Only for a class with such a pool."""
    return PodRunner.model_construct(
        pool=runner.runner_pool,
        gpus=0,
        cpu=CpuSpan.model_construct(request=OWN_POD.cpu, limit=OWN_POD.cpu),
        memory=MemorySpan.model_construct(request=OWN_POD.memory, limit=2 * OWN_POD.memory),
        scratch=_OWN_DISK,
        scale=runner.scale,
        schedules=runner.schedules,
    )


def own_pod(runner: RunnerPod, jobs: str, prepare: int) -> dict[str, Any]:
    """The spec of a runner's own pod, without what selects its nodes. `jobs` is the namespace of the jobs' pods.

    `prepare` is how many seconds the hooks wait until a job's pod runs.
    """
    hooks = Mount("hooks", _FOLDER, {"configMap": {"name": CONTAINER_JOBS}}, read_only=True)
    sizes = {"cpu": cpu_text(OWN_POD.cpu), "memory": memory_text(OWN_POD.memory), "disk": memory_text(_OWN_DISK)}
    most = {"most_memory": memory_text(2 * OWN_POD.memory), "most_disk": memory_text(_OWN_DISK + runner.scratch)}
    pod = fixed("container-runner", jobs=jobs, prepare=str(prepare), **agent(runner, [hooks]), **sizes, **most)
    pod["containers"][0]["env"] += runner.trust
    return pod


def job_template(pod: Mapping[str, Any], runner: RunnerPod, deadline: int | None = None) -> dict[str, Any]:
    """The template of a job's pod, from the spec of the pod that a class without containers would have.

    Its containers have no image: the workflow names it. Kubelet ends the pod after `deadline` seconds, if nothing else does.
    """
    main, *beside = pod["containers"]
    extra = _ca(runner.ca_bundle)
    variables = [*main["env"], *_node_trust(runner.ca_bundle)]
    volume_mounts = [*main["volumeMounts"], *(mount.mount for mount in extra)]
    job = {"name": JOB, "env": variables, "resources": main["resources"], "volumeMounts": volume_mounts}
    confined = _confined(runner)
    service = {"name": SERVICE, "env": [NO_GPU], "resources": service_size(runner.services)}
    # A template's pull secrets would replace the credentials of the job, so the service account has them.
    spec = {key: value for key, value in pod.items() if key not in ("imagePullSecrets", "containers", "volumes")}
    spec |= {
        "serviceAccountName": job_account(runner),
        "securityContext": _pod_security(runner),
        "containers": [job | confined, service | confined, *beside],
        "volumes": [*pod["volumes"], *(mount.volume for mount in extra)],
    }
    # Our hook puts the hooks' own init container before these, confined and without GPUs.
    spec.setdefault("initContainers", [])
    return _template(spec | ({"activeDeadlineSeconds": deadline} if deadline is not None else {}))


def step_template(pod: Mapping[str, Any], runner: RunnerPod, deadline: int | None = None) -> dict[str, Any]:
    """The template of a container action's pod: the class's nodes, environment and volumes, the size of a service, no GPU."""
    job = job_template(pod, runner, deadline)["spec"]
    mounts = [*runner.mounts, *_ca(runner.ca_bundle)]
    variables = [*runner.variables, *_node_trust(runner.ca_bundle), NO_GPU]
    amounts = service_size(runner.services)
    step = {"name": JOB, "env": variables, "resources": amounts, "volumeMounts": [mount.mount for mount in mounts]}
    spec = {key: value for key, value in job.items() if key not in ("initContainers", "runtimeClassName")}
    spec |= {"containers": [step | _confined(runner)], "volumes": [mount.volume for mount in mounts]}
    return _template(spec)


def service_size(services: Services) -> dict[str, dict[str, str]]:
    """Requests and limits of a service, and of a container action."""
    memory = {"memory": memory_text(services.memory)}
    return {"requests": {"cpu": cpu_text(services.cpu)} | memory, "limits": memory}


def _template(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"annotations": {SAFE_TO_EVICT: "false"}}, "spec": spec}


def _confined(runner: ContainerFields) -> dict[str, Any]:
    """Images that run as root, and their sudo, need what `baseline` leaves to a container."""
    return {"securityContext": CONFINED} if runner.pod_security == "restricted" else {}


def _pod_security(runner: ContainerFields) -> dict[str, Any]:
    # The group of the hooks' own init container, which makes the workspace.
    user = {"fsGroup": RUNNER_UID}
    if runner.pod_security == "restricted":
        return CONFINED_POD | user | {"runAsUser": RUNNER_UID}
    return {"seccompProfile": CONFINED_POD["seccompProfile"]} | user


def _ca(bundle: CaBundle | None) -> list[Mount]:
    """The certificates of a class, which ARC's chart mounts into the runner's pod alone."""
    if bundle is None:
        return []
    return [Mount("github-server-tls-cert", bundle.FOLDER, {"configMap": {"name": bundle.config_map}}, read_only=True)]


def _node_trust(bundle: CaBundle | None) -> list[dict[str, str]]:
    """The variable of node, in which actions run. ARC's chart sets it in the runner's pod alone."""
    return [] if bundle is None else [{"name": "NODE_EXTRA_CA_CERTS", "value": bundle.path}]
