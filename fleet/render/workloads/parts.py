"""What the manifests of several workloads have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.charts.chart import manifests
from fleet.facts.pods import CONFINED, CONFINED_POD, RUNNER_UID
from fleet.facts.scheduling import SAFE_TO_EVICT, Priority, workload_labels
from fleet.providers.target import Target
from fleet.settings.model import cpu_text, memory_text
from fleet.settings.workloads import PoolWorkload, Storage, Workload

UID = RUNNER_UID
"""User and group of all containers here, for an MPS server works for one user at a time and the pool's runners are 1001.

No image needs its user to have a name, so each gets a home of its own.
"""

HOME = "/tmp"  # noqa: S108 - a folder of the container, where every user may write

Manifest = dict[str, Any]
"""One Kubernetes object, with apiVersion, kind and metadata."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What an object is called, where it is, and of which kind of workload it is a part."""

    name: str
    namespace: str
    kind: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of all objects of the workload; they tell its pods from others."""
        return workload_labels(self.kind, self.name)

    def named(self, suffix: str = "") -> Manifest:
        """The metadata of one of its objects."""
        return {"name": self.name + suffix, "namespace": self.namespace, "labels": self.labels}


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume and where the container has it."""

    path: str
    volume: Manifest


def scratch(name: str, path: str, size: str) -> Mount:
    """An empty folder that goes with the pod."""
    return Mount(path, {"name": name, "emptyDir": {"sizeLimit": size}})


def claimed(name: str, path: str, claim_name: str) -> Mount:
    """A volume that outlives the pod."""
    return Mount(path, {"name": name, "persistentVolumeClaim": {"claimName": claim_name}})


def shared_memory(workload: PoolWorkload, target: Target) -> list[Mount]:
    """A /dev/shm of the workload's size: the 64 MiB that a container has by itself break data loaders."""
    if not target.mounts_shm:
        return []
    volume = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": memory_text(workload.shm)}}
    return [Mount("/dev/shm", volume)]  # noqa: S108 - a mount point


def resources(workload: Workload, extended: Mapping[str, int]) -> Manifest:
    """Requests and limits; of extended resources both are the same, as the API server demands."""
    requests = {
        "cpu": cpu_text(workload.cpu.request),
        "memory": memory_text(workload.memory.request),
        "ephemeral-storage": memory_text(workload.scratch),
    }
    limits = {"cpu": cpu_text(workload.cpu.limit), "memory": memory_text(workload.memory.limit)}
    return {"requests": {**requests, **extended}, "limits": {**limits, **extended}}


def gpu_container(workload: PoolWorkload, target: Target, name: str, image: str, env: Mapping[str, str], **more: Any) -> Manifest:
    """A container that takes the workload's units of the pool's resource, without its mounts. `more` are fields of its own."""
    return {
        "name": name,
        "image": workload.image or image,
        "env": [
            {"name": key, "value": value}
            for key, value in ({"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"} | dict(env)).items()
        ],
        "resources": resources(workload, {target.resource: workload.units}),
        "securityContext": CONFINED,
    } | more


def gpu_pod(target: Target, container: Manifest, mounts: Sequence[Mount], priority: Priority) -> Manifest:
    """Spec of a pod on the target with one container, held to the Pod Security Standard `restricted`."""
    return {
        # What serves needs no right in the cluster, and environment variables of every Service only confuse it.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": priority.name,
        "nodeSelector": target.selector,
        "tolerations": manifests(target.tolerations),
        **({"runtimeClassName": target.runtime_class} if target.runtime_class else {}),
        "securityContext": CONFINED_POD
        | {"runAsUser": UID, "runAsGroup": UID, "fsGroup": UID, "fsGroupChangePolicy": "OnRootMismatch"},
        **_mounted(container, mounts),
    }


def _mounted(container: Manifest, mounts: Sequence[Mount]) -> Manifest:
    if not mounts:
        return {"containers": [container]}
    where = [{"name": each.volume["name"], "mountPath": each.path} for each in mounts]
    return {"containers": [container | {"volumeMounts": where}], "volumes": [each.volume for each in mounts]}


_DEADLINE = 3600
"""Seconds for all tries of a Job: a node has to start and an image of 10 GB to come first."""
_KEPT = 3600
_TRIES = 1


def job(meta: Meta, pod: Manifest, *, restart: str = "Never", retries: int = _TRIES) -> Manifest:
    """A Job of one pod, which ends, is cleared away, and is not tried without end."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta.named(),
        "spec": {
            "activeDeadlineSeconds": _DEADLINE,
            "backoffLimit": retries,
            "ttlSecondsAfterFinished": _KEPT,
            "template": {
                # A node that the autoscaler takes away ends the Job's pod.
                "metadata": {"labels": meta.labels, "annotations": {SAFE_TO_EVICT: "false"}},
                "spec": {"restartPolicy": restart} | pod,
            },
        },
    }


def deployment(meta: Meta, pod: Manifest) -> Manifest:
    """A Deployment of one pod. The old pod goes before the new one comes: both would want the same GPU and volume."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta.named(),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": _DEADLINE,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": meta.labels},
            "template": {"metadata": {"labels": meta.labels}, "spec": pod},
        },
    }


def service(meta: Meta, port: int, target_port: str) -> Manifest:
    """A Service inside the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta.named(),
        "spec": {
            "type": "ClusterIP",
            "selector": meta.labels,
            "ports": [{"name": "http", "port": port, "targetPort": target_port, "protocol": "TCP"}],
        },
    }


def claim(meta: Meta, suffix: str, storage: Storage) -> Manifest:
    """A volume for one node at a time."""
    named = {} if storage.storage_class is None else {"storageClassName": storage.storage_class}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta.named(suffix),
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": memory_text(storage.size)}}} | named,
    }


def probes(path: str, *, startup_seconds: int) -> Manifest:
    """HTTP probes of port `http`: what starts within `startup_seconds` is then asked every ten."""
    get = {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5}
    return {
        "startupProbe": get | {"periodSeconds": 10, "failureThreshold": startup_seconds // 10},
        "readinessProbe": get | {"periodSeconds": 10},
        # A server at work on a GPU may be slow to answer: a minute of silence is not yet its death.
        "livenessProbe": get | {"periodSeconds": 10, "failureThreshold": 12},
    }
