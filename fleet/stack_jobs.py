"""The jobs of a stack, each in the pool that runs it, or why there is none."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.cluster import Cluster
from fleet.job_settings import StackJob
from fleet.jobs import PROFILES, GpuJobSpec, JobError, JobPlacement, JobProblem, gpu_job, place_job
from fleet.jobs.rules import IN_PYTHON
from fleet.model import cpu_text, memory_text
from fleet.placement import PlacementError
from fleet.settings import Fleet
from fleet.workloads.room import Refusal

_KEYS = {
    "gpu_count": "gpus",
    "gpu_type": "gpuType",
    "secret_env": "secretEnv",
    "cache_path": "cachePath",
    "cache_read_only": "cacheReadOnly",
    "workspace_path": "workspacePath",
    "priority_class": "priority",
    "backoff_limit": "backoffLimit",
}
"""Arguments of a job by the settings' names for them, where those differ."""
_ARGUMENTS = re.compile(rf"\b({'|'.join(_KEYS)})\b")
_IN_YAML = "write secretEnv: {NAME: [secret, key]}"


def place_stack_job(fleet: Fleet, cluster: str, name: str) -> JobPlacement:
    """A job of a cluster in the pool that it names, or the best one of its GPU. Raises JobRefusedError where none holds it."""
    settings: Cluster = fleet.clusters[cluster]
    wanted = settings.jobs[name]
    return place_job(fleet, specification(name, wanted, settings.pools), cluster=cluster, pool=wanted.pool)


def specification(name: str, wanted: StackJob, pools: Mapping[str, Any]) -> GpuJobSpec:
    """The job of this name as `fleet.jobs` reads it, with the cluster's pools to tell its GPU by.

    Raises JobError with every problem, in the settings' words; a fleet that was loaded has none.
    """
    options: dict[str, Any] = {
        "args": wanted.args,
        "secret_env": wanted.secret_env,
        "namespace": wanted.namespace,
        "spot": wanted.spot,
        "shared": wanted.shared,
        "cache": wanted.cache,
        "cache_read_only": wanted.cache_read_only,
        "workspace": wanted.workspace,
        "queue": wanted.queue,
        "labels": wanted.labels,
    }
    given: Mapping[str, Any] = {
        "scratch": memory_text(wanted.scratch) if wanted.scratch else None,
        "shm": memory_text(wanted.shm) if wanted.shm else None,
        "cache_path": wanted.cache_path,
        "workspace_path": wanted.workspace_path,
        "priority_class": wanted.priority,
        "deadline": wanted.deadline,
        "backoff_limit": wanted.backoff_limit,
    }
    options |= {key: value for key, value in given.items() if value is not None}
    gpu = wanted.gpu_type
    if wanted.pool is not None:
        pool = pools[wanted.pool]
        # A pool that is named is wanted as it is.
        options |= {"spot": pool.capacity == "spot", "shared": pool.sharing is not None}
        gpu = next(key for key, profile in PROFILES.items() if profile.gpu == pool.machines[0].gpu.name)
    try:
        return gpu_job(
            name,
            wanted.image,
            wanted.gpus,
            gpu or "",
            memory_text(wanted.memory) if wanted.memory else None,
            cpu_text(wanted.cpu) if wanted.cpu else None,
            wanted.command,
            wanted.env,
            **options,
        )
    except JobError as error:
        raise JobError(tuple(map(_renamed, error.problems))) from None


def refusals(fleet: Fleet) -> Iterator[Refusal]:
    """Every job that has no place, in the order of the config, with a reason for each pool."""
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                place_stack_job(fleet, cluster, name)
            except JobError as error:
                yield Refusal(cluster, name, "; ".join(map(str, error.problems)), kind="job")


def require(fleet: Fleet) -> None:
    """Raise PlacementError when a job cannot be placed, with a line for each."""
    if errors := [f"{found.cluster}.jobs.{found.workload}: {found.error}" for found in refusals(fleet)]:
        raise PlacementError("\n".join(errors))


def remarks(fleet: Fleet) -> Iterator[str]:
    """What an owner should know of jobs that work."""
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                placed = place_stack_job(fleet, cluster, name)
            except JobError:
                continue
            yield from (f"{cluster}.jobs.{name}: {remark}" for remark in placed.remarks)


def _renamed(found: JobProblem) -> JobProblem:
    """A problem in the words of the settings: their keys, and YAML where Python would be shown."""
    first, dot, rest = found.field.partition(".")
    message = _ARGUMENTS.sub(lambda name: _KEYS[name[0]], found.message.replace(IN_PYTHON, _IN_YAML))
    return dataclasses.replace(found, field=f"{_KEYS.get(first, first)}{dot}{rest}", message=message)
