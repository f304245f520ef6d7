"""Places the jobs of a stack in pools, and reports the runner sets, workloads and jobs that no node can hold."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.facts.errors import Problem
from fleet.facts.quantities import cpu_text, memory_text
from fleet.jobs import GpuJobSpec, JobError, JobPlacement, JobProblem, gpu_job, place_job
from fleet.jobs.place import agreed, options_of
from fleet.jobs.rules import IN_PYTHON
from fleet.prove import room
from fleet.prove.placement import Placement, PlacementError
from fleet.prove.room import Refusal
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.jobs import StackJob

_ARGUMENT = {"gpus": "gpu_count", "priority": "priority_class"}
"""The arguments for fields of `StackJob` with another name."""
_KEYS = {_ARGUMENT.get(name, name): field.alias or name for name, field in StackJob.model_fields.items()}
"""The settings' keys by argument."""
_ARGUMENTS = re.compile(rf"\b({'|'.join(_KEYS)})\b")
_IN_YAML = "write secretEnv: {NAME: [secret, key]}"


def place_stack_job(fleet: Fleet, cluster: str, name: str) -> JobPlacement:
    """Place a job in the pools that it names, or in the best pool with its GPU. Raises JobRefusedError if no pool holds it."""
    settings: Cluster = fleet.clusters[cluster]
    job = settings.jobs[name]
    return place_job(fleet, specification(name, job, settings.pools), cluster=cluster, pool=job.ordered)


def specification(name: str, job: StackJob, pools: Mapping[str, Any]) -> GpuJobSpec:
    """The job for `fleet.jobs`. A job that names a pool gets the GPU type, spot and shares of that pool.

    Raises JobError with every problem, named by the keys of the settings. The jobs of a loaded fleet have no problem.
    """
    arguments: dict[str, Any] = {_ARGUMENT.get(key, key): value for key, value in job if value is not None}
    arguments |= {key: memory_text(arguments[key]) for key in ("memory", "scratch", "shm") if key in arguments}
    if job.cpu is not None:
        arguments["cpu"] = cpu_text(job.cpu)
    for key in ("pool", "pools"):
        arguments.pop(key, None)
    arguments |= agreed([options_of(pools[pool]) for pool in job.ordered])
    try:
        return gpu_job(name, **arguments)
    except JobError as error:
        raise JobError(tuple(map(_renamed, error.problems))) from None


def problems(fleet: Fleet) -> Iterator[Problem]:
    """Every wrong argument of a stack's jobs. The rules are those of `fleet.jobs.create_gpu_job`."""
    for cluster, settings in fleet.clusters_by_name():
        for name, job in settings.jobs.items():
            at = (f"{NAMESPACE}:clusters", cluster, "jobs", name)
            try:
                specification(name, job, settings.pools)
            except JobError as error:
                yield from (Problem((*at, *_steps(one.field)), one.message, one.value, "job_argument") for one in error.problems)


def _steps(field: str) -> tuple[str, ...]:
    """The path of a field below its job. The key of a label may contain dots."""
    first, _, below = field.partition(".")
    return (first, below) if first == "labels" and below else tuple(field.split("."))


def refusals(fleet: Fleet, placements: Iterable[Placement]) -> Iterator[Refusal]:
    """Every runner set, workload and job of a fleet that no node can hold. A job has a reason for each pool."""
    for placement in placements:
        if placement.error:
            yield Refusal(placement.cluster, placement.runner_set, placement.error, "runner set")
    yield from room.refusals(fleet)
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                place_stack_job(fleet, cluster, name)
            except JobError as error:
                yield Refusal(cluster, name, "; ".join(map(str, error.problems)), "job")


def require(fleet: Fleet, placements: Iterable[Placement]) -> None:
    """Raise PlacementError with a line for each runner set, workload and job that no node can hold."""
    kinds = {"runner set": "runners", "workload": "workloads", "job": "jobs"}
    if errors := [f"{row.cluster}.{kinds[row.kind]}.{row.workload}: {row.error}" for row in refusals(fleet, placements)]:
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


def _renamed(problem: JobProblem) -> JobProblem:
    """The problem with the keys of the settings, and YAML instead of Python."""
    first, dot, below = problem.field.partition(".")
    message = _ARGUMENTS.sub(lambda name: _KEYS[name[0]], problem.message.replace(IN_PYTHON, _IN_YAML))
    return dataclasses.replace(problem, field=f"{_KEYS.get(first, first)}{dot}{below}", message=message)
