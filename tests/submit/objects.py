"""Kubernetes objects as a cluster would have them, for the tests' API server."""

from __future__ import annotations

from typing import Any

from tests.submit.server import NAMESPACE

NODE = "ip-10-0-1-2"


def job(name: str = "train", **spec: Any) -> dict[str, Any]:
    """A Job of one GPU; `spec` replaces keys of its spec."""
    container = {
        "name": "worker",
        "image": "ghcr.io/example/train:1.4",
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "16Gi"}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 3, "template": template} | spec,
    }


def pod(of: dict[str, Any], name: str, status: dict[str, Any], *, node: str = NODE, **spec: Any) -> dict[str, Any]:
    """A pod of a Job that the server made."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "labels": dict(of["spec"]["selector"]["matchLabels"]),
        },
        "spec": {**of["spec"]["template"]["spec"], **({"nodeName": node} if node else {}), **spec},
        "status": status,
    }


def container(
    state: dict[str, Any], restarts: int = 0, last: dict[str, Any] | None = None, name: str = "worker"
) -> dict[str, Any]:
    """The status of a container."""
    return {
        "name": name,
        "state": state,
        "lastState": last or {},
        "restartCount": restarts,
        "image": "",
        "imageID": "",
        "ready": False,
    }


def running(restarts: int = 0, last: dict[str, Any] | None = None) -> dict[str, Any]:
    """Status of a pod whose container runs."""
    started = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"phase": "Running", "containerStatuses": [container(started, restarts, last)]}


def terminated(code: int, reason: str = "", run: int = 0, **more: Any) -> dict[str, Any]:
    """State of a container that has ended."""
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "containerID": f"c://{run}",
            **more,
        }
    }


def ended(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    """Status of a pod whose container has ended and will not restart."""
    return {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": [container(terminated(code, reason, **more))]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Status of a pod whose container waits."""
    return {
        "phase": "Pending",
        "conditions": [true("PodScheduled")],
        "containerStatuses": [container({"waiting": {"reason": reason, "message": message}})],
    }


def unscheduled(message: str) -> dict[str, Any]:
    """Status of a pod that the scheduler finds no node for."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    }


def true(kind: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """A condition that holds."""
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def disrupted(reason: str, message: str, phase: str = "Failed") -> dict[str, Any]:
    """Status of a pod that was evicted, preempted or lost."""
    status = {"phase": phase, "conditions": [true("DisruptionTarget", reason, message)]}
    return status | {"containerStatuses": [container(terminated(137))]}


def event(of: str, reason: str, message: str, kind: str = "Normal", name: str = "") -> dict[str, Any]:
    """An event about the object of a uid."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name or f"{of}.{reason.lower()}", "uid": f"event-{of}-{reason}"},
        "involvedObject": {"uid": of},
        "reason": reason,
        "message": message,
        "type": kind,
    }


def workload(of: str, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    """Kueue's Workload of the Job with a uid."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "job-train-1", "uid": "uid-workload", "labels": {"kueue.x-k8s.io/job-uid": of}},
        "status": {"conditions": list(conditions), **status},
    }
