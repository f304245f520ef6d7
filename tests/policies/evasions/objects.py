"""What an evasion starts from: objects that every policy passes in silence. A case changes one thing of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.policies.harness import changed

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
IMAGE = f"nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04@sha256:{'9b5f1c2a' * 8}"
TEAM = {"name": "train", "namespace": "team-a"}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CONTAINER: Object = {"name": "train", "image": IMAGE, "securityContext": CONFINED}
CPU = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
GPUS: Object = {
    "requests": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "20Gi"},
    "limits": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", GPU: 1},
}
SAFE: Object = {
    "automountServiceAccountToken": False,
    "priorityClassName": "gpu-ci-runner",
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
}
ON_GPUS: Object = {
    "nodeSelector": {"gpu-ci/pool": "t4-spot"},
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
}


def container(**fields: Any) -> Object:
    """A container without a GPU, with these fields in place of its own."""
    return CONTAINER | {"resources": CPU} | fields


def on_gpu(count: Any = 1, **fields: Any) -> Object:
    """A container with so many GPUs."""
    return container(resources=changed(GPUS, "limits", GPU, count)) | fields


def spec(body: Object | None = None, **fields: Any) -> Object:
    """The spec of a pod on a node without GPUs, with this container."""
    return SAFE | {"containers": [body or container()]} | fields


def gpu_spec(body: Object | None = None, **fields: Any) -> Object:
    """The spec of a pod with a GPU."""
    return spec(body or on_gpu(), **ON_GPUS) | fields


def thing(version: str, kind: str, body: Any, name: str = "train", namespace: str | None = "team-a", **fields: Any) -> Object:
    """An object with this `spec`; without one if the spec is None. `fields` are beside it."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata} | ({} if body is None else {"spec": body}) | fields


def pod(body: Object, annotations: dict[str, str] | None = None, **fields: Any) -> Object:
    """A Pod."""
    made = thing("v1", "Pod", body, **fields)
    return made if annotations is None else changed(made, "metadata", "annotations", annotations)


def deployment(body: Object, replicas: Any = 1, name: str = "train") -> Object:
    """A Deployment: its pods restart without end."""
    of_pods = {"matchLabels": {"app": name}}
    template = {"metadata": {"labels": {"app": name}}, "spec": body | {"restartPolicy": "Always"}}
    return thing("apps/v1", "Deployment", {"replicas": replicas, "selector": of_pods, "template": template}, name)


def job(body: Object, **fields: Any) -> Object:
    """A Job that ends after an hour."""
    return thing(
        "batch/v1",
        "Job",
        {"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 3600, "backoffLimit": 0, "template": {"spec": body}} | fields,
    )


def application(source: Object, **fields: Any) -> Object:
    """An Application of ArgoCD."""
    destination = {"server": "https://kubernetes.default.svc", "namespace": "team-a"}
    return thing(
        "argoproj.io/v1alpha1", "Application", {"project": "team-a", "destination": destination, "source": source} | fields
    )


def chart(name: str, values: Object, repository: str = "https://argoproj.github.io/argo-helm", version: str = "1.2.3") -> Object:
    """An Application of a chart."""
    return application({"chart": name, "repoURL": repository, "targetRevision": version, "helm": {"valuesObject": values}})


@dataclass(frozen=True)
class Manifest:
    """An evasion in manifests: what an attacker does, from which finding it comes, and the objects or the YAML text."""

    id: str
    does: str
    finding: str
    objects: tuple[Object, ...] | str


def case(name: str, does: str, finding: str, *objects: Object) -> Manifest:
    """A case of these objects."""
    return Manifest(name, does, finding, objects)
