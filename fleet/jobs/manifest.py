"""The Kubernetes manifest of a job."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from fleet.charts.chart import manifests
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.scheduling import (
    ACCELERATOR_LABEL,
    CAPACITY_LABEL,
    INSTANCE_TYPE_LABEL,
    MIG_RESOURCE,
    QUEUE_LABEL,
    SAFE_TO_EVICT,
    TASK,
)
from fleet.jobs.ask import GpuAsk
from fleet.jobs.errors import JobError, JobProblem
from fleet.jobs.profiles import PROFILES
from fleet.jobs.spec import GpuJobSpec
from fleet.jobs.volumes import mounts
from fleet.providers.registry import PROVIDERS
from fleet.providers.target import Target
from fleet.settings.model import cpu_text, is_label_value, memory_text

Manifest = dict[str, Any]


def manifest(job: GpuJobSpec, target: Target | None = None) -> Manifest:
    """The `batch/v1` Job: bound to a pool, or without a target to nodes with the right GPU.

    Raises JobError for several shares without a target: only a pool can allow them.
    """
    if target is None:
        target = _anywhere(job.ask)
    given = job.given
    # A label too, by which people find the Job, if the task is a valid label value. The annotation always has it.
    tags = {TASK: given.task_id} if is_label_value(given.task_id) else {}
    queue = {QUEUE_LABEL: given.queue} if given.queue else {}
    metadata = {
        "name": job.name,
        "namespace": given.namespace,
        "labels": given.labels | tags | queue,
        "annotations": given.annotations | {TASK: given.task_id},
    }
    template = {
        # SAFE_TO_EVICT, because the job ends if the autoscaler removes its node.
        "metadata": _filled(
            {"labels": given.labels | tags, "annotations": given.annotations | {TASK: given.task_id, SAFE_TO_EVICT: "false"}}
        ),
        "spec": _pod(job, target),
    }
    made = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _filled(metadata),
        "spec": {
            "backoffLimit": given.backoff_limit,
            "activeDeadlineSeconds": given.deadline,
            "ttlSecondsAfterFinished": given.ttl,
            # Kueue starts it as soon as its queue has room.
            **({"suspend": True} if given.queue else {}),
            **({"podFailurePolicy": _NO_FAILURE} if job.restart_policy == "Never" else {}),
            "template": template,
        },
    }
    # A copy, because parts of it are constants that all pods share.
    return copy.deepcopy(made)


def _filled(fields: Manifest) -> Manifest:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


_NO_FAILURE = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
"""A pod that lost its node or was preempted does not count as a try (Kubernetes, "Pod failure policy"; only with Never)."""


def _anywhere(ask: GpuAsk) -> Target:
    """The target of a pod without a pool. Raises JobError for several shares, because only a pool can allow them."""
    if ask.shared and ask.gpus > 1 and not ask.unplaced_resource.startswith(MIG_RESOURCE):
        why = (
            "several shares may be of the same GPU and do not add up to a larger one; ask for 1, or give the fleet with "
            "a pool that allows it"
        )
        raise JobError((JobProblem("gpu_count", "several_shares", why, str(ask.gpus)),))
    capacity = "spot" if ask.spot else "on-demand"
    held = dict.fromkeys(each for row in PROVIDERS.values() for each in row.profile.pod_tolerations(capacity))
    return Target([{}], tuple(held), "", ask.unplaced_resource, mounts_shm=True)


def _pod(job: GpuJobSpec, target: Target) -> Manifest:
    given = job.given
    spec = {
        "restartPolicy": job.restart_policy,
        "priorityClassName": job.priority_class,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": name} for name in given.pull_secrets],
        "runtimeClassName": target.runtime_class,
        "nodeSelector": _selector(job.ask, target),
        "affinity": _affinity(job.ask, bound=bool(target.selector)),
        "tolerations": manifests(target.tolerations),
        "securityContext": CONFINED_POD
        | {
            "runAsUser": given.user,
            "runAsGroup": given.group,
            "fsGroup": given.group,
            # A model cache has many files: do not change each of them at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
        },
        "containers": [_container(job, target)],
        "volumes": [each.volume for each in mounts(job, own_shm=target.mounts_shm)],
    }
    return _filled(spec)


def _container(job: GpuJobSpec, target: Target) -> Manifest:
    ask, given = job.ask, job.given
    gpus = {target.resource: str(ask.gpus)}
    container = {
        "name": "worker",
        "image": given.image,
        "command": list(given.command),
        "args": list(given.args),
        "env": list(_variables(job)),
        "resources": {
            "requests": {
                "cpu": cpu_text(ask.cpu.request),
                "memory": memory_text(ask.memory.request),
                "ephemeral-storage": memory_text(ask.scratch),
                **gpus,
            },
            "limits": {"cpu": cpu_text(ask.cpu.limit), "memory": memory_text(ask.memory.limit), **gpus},
        },
        "securityContext": CONFINED,
        "volumeMounts": [each.mount for each in mounts(job, own_shm=target.mounts_shm)],
    }
    return _filled(container)


def _variables(job: GpuJobSpec) -> Iterator[Manifest]:
    yield from ({"name": name, "value": value} for name, value in job.env.items() if name not in job.given.secret_env)
    for name, (secret, key) in job.given.secret_env.items():
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _selector(ask: GpuAsk, target: Target) -> dict[str, str]:
    """Labels that a node must have: the pool's or the GPU's, and the machine's if the job names one machine."""
    gpu = dict(target.selector) or ({ACCELERATOR_LABEL: PROFILES[ask.gpu_type].accelerator} if len(ask.gpu_types) == 1 else {})
    return gpu | ({INSTANCE_TYPE_LABEL: ask.instance_types[0]} if len(ask.instance_types) == 1 else {})


def _affinity(ask: GpuAsk, *, bound: bool) -> Manifest:
    """The requirements that a node selector cannot express: one of several values, values to avoid, and preferences."""
    required = []
    if len(ask.instance_types) > 1:
        required.append(_one_of(INSTANCE_TYPE_LABEL, list(ask.instance_types)))
    if not bound and len(ask.gpu_types) > 1:
        required.append(_one_of(ACCELERATOR_LABEL, [PROFILES[name].accelerator for name in ask.gpu_types]))
    if not bound and not ask.spot:
        # A node without the label is not in one of our pools, so its capacity type is not known.
        required.append({"key": CAPACITY_LABEL, "operator": "NotIn", "values": ["spot"]})
    found: Manifest = {}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchExpressions": required}]}
    if not bound and ask.prefer:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": [_one_of(ACCELERATOR_LABEL, [PROFILES[name].accelerator])]}}
            for name, weight in ask.gpu_types.items()
        ]
    return {"nodeAffinity": found} if found else {}


def _one_of(label: str, values: list[str]) -> Manifest:
    return {"key": label, "operator": "In", "values": values}
