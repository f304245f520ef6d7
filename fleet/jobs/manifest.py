"""The Kubernetes manifest of a job."""

import copy
from collections.abc import Iterator
from typing import Any

from fleet.charts.chart import amounts, manifests, part
from fleet.facts import scheduling
from fleet.facts.pods import CONFINED, CONFINED_POD, Mount, claimed, shared_memory
from fleet.facts.quantities import memory_text
from fleet.jobs.ask import GpuAsk
from fleet.jobs.errors import JobError, refused
from fleet.jobs.profiles import PROFILES
from fleet.jobs.spec import GpuJobSpec
from fleet.providers.installed import Target
from fleet.providers.registry import PROVIDERS
from fleet.settings.model import is_label_value

Manifest = dict[str, Any]
REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def manifest(job: GpuJobSpec, target: Target | None = None) -> Manifest:
    """The `batch/v1` Job: bound to a pool, or without a target to nodes with the right GPU.

    Raises JobError for several shares without a target: only a pool can allow them.
    """
    if target is None:
        target = _anywhere(job.ask)
    arguments = job.given
    # A label too, by which people find the Job, if the task is a valid label value. The annotation always has it.
    tags = {scheduling.TASK: arguments.task_id} if is_label_value(arguments.task_id) else {}
    queue = {scheduling.QUEUE_LABEL: arguments.queue} if arguments.queue else {}
    labels, annotations = arguments.labels | tags, arguments.annotations | {scheduling.TASK: arguments.task_id}
    own = {"name": job.name, "namespace": arguments.namespace, "labels": labels | queue, "annotations": annotations}
    # SAFE_TO_EVICT, because the job ends if the autoscaler removes its node.
    of_pod = _filled({"labels": labels, "annotations": annotations | {scheduling.SAFE_TO_EVICT: "false"}})
    policy = _NO_FAILURE if job.restart_policy == "Never" else None
    most = {"backoff_limit": arguments.backoff_limit, "deadline": arguments.deadline, "ttl": arguments.ttl}
    given = {"suspend": bool(arguments.queue) or None, "policy": policy, "of_pod": of_pod, "pod": _pod(job, target)}
    spec = part(__file__, "job", **most, **given)
    # A copy, because parts of it are the arguments'.
    return copy.deepcopy({"apiVersion": "batch/v1", "kind": "Job", "metadata": _filled(own), "spec": spec})


def _filled(fields: Manifest) -> Manifest:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


_NO_FAILURE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
"""A pod that lost its node or was preempted does not count as a try (Kubernetes, "Pod failure policy"; only with Never)."""


def _anywhere(ask: GpuAsk) -> Target:
    """The target of a pod without a pool. Raises JobError for several shares, because only a pool can allow them."""
    if ask.shared and ask.gpus > 1 and not ask.unplaced_resource.startswith(scheduling.MIG_RESOURCE):
        raise JobError((refused("several_shares__job", "gpu_count", ask.gpus),))
    capacity = "spot" if ask.spot else "on-demand"
    tolerations = dict.fromkeys(toleration for row in PROVIDERS.values() for toleration in row.profile.pod_tolerations(capacity))
    return Target([], tuple(tolerations), "", ask.unplaced_resource, mounts_shm=True)


def _pod(job: GpuJobSpec, target: Target) -> Manifest:
    arguments = job.given
    user = {"runAsUser": arguments.user, "runAsGroup": arguments.group, "fsGroup": arguments.group}
    of_job = {"restart": job.restart_policy, "priority": job.priority_class, "runtime_class": target.runtime_class}
    lists = {
        "secrets": [{"name": name} for name in arguments.pull_secrets],
        "tolerations": manifests(target.tolerations),
        "containers": [_container(job, target)],
        "volumes": [mount.volume for mount in mounts(job, own_shm=target.mounts_shm)],
    }
    # A model cache has many files: do not change each of them at every start.
    security = CONFINED_POD | user | {"fsGroupChangePolicy": "OnRootMismatch"}
    return _filled(part(__file__, "pod", **of_job, **lists, **_nodes(job.ask, target), security=security))


def _container(job: GpuJobSpec, target: Target) -> Manifest:
    ask, arguments = job.ask, job.given
    words = {"command": list(arguments.command), "args": list(arguments.args), "env": list(_variables(job))}
    sizes = amounts(ask.cpu, ask.memory, ask.scratch, {target.resource: str(ask.gpus)})
    mounted = [mount.mount for mount in mounts(job, own_shm=target.mounts_shm)]
    return _filled(part(__file__, "worker", **words, image=arguments.image, sizes=sizes, confined=CONFINED, mounts=mounted))


def mounts(job: GpuJobSpec, *, own_shm: bool = True) -> Iterator[Mount]:
    """The job's mounts. Without `own_shm` the device plugin mounts /dev/shm itself, and the pod must not."""
    arguments = job.given
    if arguments.workspace:
        yield claimed("workspace", arguments.workspace_path, arguments.workspace)
    if arguments.cache:
        yield claimed("models", arguments.cache_path, arguments.cache, arguments.cache_read_only)
    if job.ask.shm and own_shm:
        yield shared_memory(memory_text(job.ask.shm))


def _variables(job: GpuJobSpec) -> Iterator[Manifest]:
    yield from ({"name": name, "value": value} for name, value in job.env.items() if name not in job.given.secret_env)
    for name, (secret, key) in job.given.secret_env.items():
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _nodes(ask: GpuAsk, target: Target) -> Manifest:
    """The node selector and the affinity: the labels of the pools or of the GPU, and of the machine types that the job names."""
    bound = bool(target.selectors)
    choice = scheduling.node_choice(target.selectors)
    gpu = {scheduling.ACCELERATOR_LABEL: PROFILES[ask.gpu_type].accelerator} if not bound and len(ask.gpu_types) == 1 else {}
    machine = {scheduling.INSTANCE_TYPE_LABEL: ask.instance_types[0]} if len(ask.instance_types) == 1 else {}
    affinity: Manifest = choice.get("affinity", {}).get("nodeAffinity", {})
    if required := list(_required(ask, bound=bound)):
        # A node must fit one whole term, so each term has what the job requires of every node.
        for term in affinity.setdefault(REQUIRED, {"nodeSelectorTerms": [{"matchExpressions": []}]})["nodeSelectorTerms"]:
            term["matchExpressions"] += required
    if not bound and ask.prefer:
        affinity[PREFERRED] = [
            {"weight": weight, "preference": {"matchExpressions": [_accelerators(name)]}}
            for name, weight in ask.gpu_types.items()
        ]
    selector = choice.get("nodeSelector", {}) | gpu | machine
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity} if affinity else {}}


def _required(ask: GpuAsk, *, bound: bool) -> Iterator[Manifest]:
    """The requirements that a node selector cannot express: one of several values, and values to avoid."""
    if len(ask.instance_types) > 1:
        yield _one_of(scheduling.INSTANCE_TYPE_LABEL, list(ask.instance_types))
    if not bound and len(ask.gpu_types) > 1:
        yield _accelerators(*ask.gpu_types)
    if not bound and not ask.spot:
        # A node without the label is not in one of our pools, so its capacity type is not known.
        yield {"key": scheduling.CAPACITY_LABEL, "operator": "NotIn", "values": ["spot"]}


def _accelerators(*gpu_types: str) -> Manifest:
    return _one_of(scheduling.ACCELERATOR_LABEL, [PROFILES[name].accelerator for name in gpu_types])


def _one_of(label: str, values: list[str]) -> Manifest:
    return {"key": label, "operator": "In", "values": values}
