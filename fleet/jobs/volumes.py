"""A job's volumes: shared memory, its workspace, and a cache of models that jobs share."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.pods import Mount, claimed, shared_memory
from fleet.jobs.spec import GpuJobSpec
from fleet.settings.model import memory_text


def mounts(job: GpuJobSpec, *, own_shm: bool = True) -> Iterator[Mount]:
    """The job's mounts. Without `own_shm` the device plugin mounts /dev/shm itself, and the pod must not."""
    arguments = job.given
    if arguments.workspace:
        yield claimed("workspace", arguments.workspace_path, arguments.workspace)
    if arguments.cache:
        yield claimed("models", arguments.cache_path, arguments.cache, arguments.cache_read_only)
    if job.ask.shm and own_shm:
        yield shared_memory(memory_text(job.ask.shm))
