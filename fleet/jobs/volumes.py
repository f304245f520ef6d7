"""A job's volumes: shared memory, its workspace, and a cache of models that jobs share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.jobs.spec import GpuJobSpec
from fleet.settings.model import memory_text

SHM = "/dev/shm"  # noqa: S108 - a mount point, not a temporary file


@dataclass(frozen=True, slots=True)
class Mount:
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


def mounts(job: GpuJobSpec, *, own_shm: bool = True) -> Iterator[Mount]:
    """The job's mounts. Without `own_shm` the device plugin mounts /dev/shm itself, and the pod must not."""
    arguments = job.given
    if arguments.workspace:
        yield Mount("workspace", arguments.workspace_path, _claim(arguments.workspace))
    if arguments.cache:
        yield Mount("models", arguments.cache_path, _claim(arguments.cache, arguments.cache_read_only), arguments.cache_read_only)
    if job.ask.shm and own_shm:
        yield Mount("shm", SHM, {"emptyDir": {"medium": "Memory", "sizeLimit": memory_text(job.ask.shm)}})


def _claim(name: str, read_only: bool = False) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name} | ({"readOnly": True} if read_only else {})}
