"""Places the jobs of a stack in pools, or says why no pool holds a job."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.facts.errors import Problem
from fleet.jobs import GpuJobSpec, JobError, JobPlacement, JobProblem, gpu_job, place_job
from fleet.jobs.place import options_of
from fleet.jobs.rules import IN_PYTHON
from fleet.prove.placement import PlacementError
from fleet.prove.room import Refusal
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.jobs import StackJob
from fleet.settings.model import cpu_text, memory_text

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
"""The settings' names of arguments, where they differ."""
_ARGUMENTS = re.compile(rf"\b({'|'.join(_KEYS)})\b")
_IN_YAML = "write secretEnv: {NAME: [secret, key]}"


def place_stack_job(fleet: Fleet, cluster: str, name: str) -> JobPlacement:
    """Place a job in the pool that it names, or in the best pool with its GPU. Raises JobRefusedError if no pool holds it."""
    settings: Cluster = fleet.clusters[cluster]
    wanted = settings.jobs[name]
    return place_job(fleet, specification(name, wanted, settings.pools), cluster=cluster, pool=wanted.pool)


def specification(name: str, wanted: StackJob, pools: Mapping[str, Any]) -> GpuJobSpec:
    """The job as `fleet.jobs` reads it. A job that names a pool gets the GPU type, spot and shares of that pool.

    Raises JobError with every problem, in the words of the settings. A loaded fleet has no such problem.
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
    options |= {"gpu_type": wanted.gpu_type or ""} if wanted.pool is None else options_of(pools[wanted.pool])
    try:
        return gpu_job(
            name,
            wanted.image,
            wanted.gpus,
            memory=memory_text(wanted.memory) if wanted.memory else None,
            cpu=cpu_text(wanted.cpu) if wanted.cpu else None,
            command=wanted.command,
            env=wanted.env,
            **options,
        )
    except JobError as error:
        raise JobError(tuple(map(_renamed, error.problems))) from None


def problems(fleet: Fleet) -> Iterator[Problem]:
    """Every wrong argument of a stack's jobs, by the same rules as for `fleet.jobs.create_gpu_job`."""
    for cluster, settings in fleet.clusters_by_name():
        for name, job in settings.jobs.items():
            at = (f"{NAMESPACE}:clusters", cluster, "jobs", name)
            try:
                specification(name, job, settings.pools)
            except JobError as error:
                yield from (
                    Problem((*at, *_steps(each.field)), each.message, each.value, "job_argument") for each in error.problems
                )


def _steps(field: str) -> tuple[str, ...]:
    """The path of a field below its job. The key of a label may contain dots."""
    first, _, rest = field.partition(".")
    return (first, rest) if first == "labels" and rest else tuple(field.split("."))


def refusals(fleet: Fleet) -> Iterator[Refusal]:
    """Every job that no pool holds, in the order of the config, with a reason for each pool."""
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                place_stack_job(fleet, cluster, name)
            except JobError as error:
                yield Refusal(cluster, name, "; ".join(map(str, error.problems)), kind="job")


def require(fleet: Fleet) -> None:
    """Raise PlacementError with a line for each job that no pool holds."""
    if errors := [f"{found.cluster}.jobs.{found.workload}: {found.error}" for found in refusals(fleet)]:
        raise PlacementError("\n".join(errors))


def remarks(fleet: Fleet) -> Iterator[str]:
    """Warnings about jobs that have a pool."""
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                placed = place_stack_job(fleet, cluster, name)
            except JobError:
                continue
            yield from (f"{cluster}.jobs.{name}: {remark}" for remark in placed.remarks)


def _renamed(found: JobProblem) -> JobProblem:
    """A problem in the words of the settings: their keys, and YAML instead of Python."""
    first, dot, rest = found.field.partition(".")
    message = _ARGUMENTS.sub(lambda name: _KEYS[name[0]], found.message.replace(IN_PYTHON, _IN_YAML))
    return dataclasses.replace(found, field=f"{_KEYS.get(first, first)}{dot}{rest}", message=message)
