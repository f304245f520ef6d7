"""A GPU job as Python asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from fleet.facts.errors import shown
from fleet.jobs.errors import JobError, JobProblem
from fleet.jobs.manifest import Manifest, manifest
from fleet.jobs.options import JobOptions
from fleet.jobs.place import place_job
from fleet.jobs.spec import gpu_job
from fleet.providers.fleet import Fleet


def create_gpu_job(
    task_id: str,
    image: str,
    gpu_count: int = 1,
    gpu_type: str = "v100",
    memory: str | None = None,
    cpu: str | float | None = None,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    *,
    fleet: Fleet | None = None,
    cluster: str | None = None,
    pool: str | None = None,
    **options: Unpack[JobOptions],
) -> Manifest:
    """A valid `batch/v1` Job as plain data. Nothing is sent anywhere.

    With a `fleet` the job is bound to the cheapest of its pools that holds it, of one `cluster` or `pool` if named; without, to
    nodes by the label of their GPU. `memory` and `cpu` are limits of the whole job ("16Gi", "8000m"); docs/jobs.md has the rest.
    Raises JobError with every problem of the arguments, JobRefusedError with a reason for each pool where none holds the job.
    """
    job = gpu_job(task_id, image, gpu_count, gpu_type, memory, cpu, command, env, **options)
    if fleet is not None:
        return place_job(fleet, job, cluster=cluster, pool=pool).manifest()
    missing = tuple(
        JobProblem(name, "fleet", "names a part of a stack; give its fleet too", shown(value))
        for name, value in (("cluster", cluster), ("pool", pool))
        if value is not None
    )
    if missing:
        raise JobError(missing)
    return manifest(job)
