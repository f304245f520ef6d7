"""Requests and volumes of pods, and what the Pod Security Standards require of pods (kubernetes.io, Pod Security Standards)."""

from typing import Any, Literal, Protocol

from fleet.facts.record import Record

Level = Literal["privileged", "baseline", "restricted"]
"""Kubernetes' Pod Security Standards."""

CONFINED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The security contexts that the standard `restricted` requires for a pod and for a container."""

RUNNER_UID = 1001
"""The user id of `runner` in the upstream runner image (actions/runner, images/Dockerfile)."""


class Amount(Protocol):
    """Request and limit of one resource."""

    @property
    def request(self) -> int: ...
    @property
    def limit(self) -> int: ...


class Requests(Protocol):
    """What one pod requests, side cars included: `cpu` in millicores, `memory` in MiB."""

    @property
    def name(self) -> str: ...
    @property
    def cpu(self) -> int: ...
    @property
    def memory(self) -> int: ...


class Mount(Record):
    """A volume with its name and source, and its mount path in the container."""

    name: str
    path: str
    source: dict[str, Any]
    read_only: bool = False

    @property
    def volume(self) -> dict[str, Any]:
        """The volume as a pod spec holds it."""
        return {"name": self.name} | self.source

    @property
    def mount(self) -> dict[str, Any]:
        """The mount as a container holds it."""
        return {"name": self.name, "mountPath": self.path} | ({"readOnly": True} if self.read_only else {})


def claimed(name: str, path: str, claim: str, read_only: bool = False) -> Mount:
    """A volume that outlives the pod."""
    source = {"claimName": claim} | ({"readOnly": True} if read_only else {})
    return Mount(name, path, {"persistentVolumeClaim": source}, read_only)


def shared_memory(size: str) -> Mount:
    """A /dev/shm of this size. Data loaders fail with a container's default of 64 MiB."""
    return Mount("shm", "/dev/shm", {"emptyDir": {"medium": "Memory", "sizeLimit": size}})  # noqa: S108 - a mount point
