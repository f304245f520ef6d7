"""The jobs of a stack, each in the pool that runs it, or why there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.cluster import Cluster
from fleet.job_settings import StackJob, team_of
from fleet.jobs import PROFILES, Candidate, GpuJobSpec, JobError, JobPlacement, JobProblem, candidates, gpu_job
from fleet.jobs.place import choose
from fleet.model import cpu_text, memory_text
from fleet.placement import PlacementError
from fleet.settings import Fleet
from fleet.workloads.room import Refusal
from fleet.workloads.target import pool_target

_KEYS = {
    "task_id": "",
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


def place_stack_job(fleet: Fleet, cluster: str, name: str) -> JobPlacement:
    """A job of a cluster in the pool that it names, or the best one of its GPU. Raises JobError as `fleet.jobs` does."""
    settings = fleet.clusters[cluster]
    wanted: StackJob = settings.jobs[name]
    job = specification(name, wanted, settings)
    asked = tuple(_with_quota(each, wanted, settings) for each in candidates(fleet, job.ask, cluster=cluster, pool=wanted.pool))
    # Those that a quota bars are no better than those that have no room.
    asked = (*(each for each in asked if not each.reasons), *(each for each in asked if each.reasons))
    chosen = choose(asked, f"{job.name} ({job.ask})")
    others = tuple(each for each in asked if each is not chosen)
    return JobPlacement(job, chosen, pool_target(settings, chosen.pool), others)


def specification(name: str, wanted: StackJob, settings: Cluster) -> GpuJobSpec:
    """The job of this name as `fleet.jobs` reads it. Raises JobError with every problem, by the settings' keys."""
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
        pool = settings.pools[wanted.pool]
        # A pool that is named is wanted as it is.
        options |= {"spot": pool.capacity == "spot", "shared": pool.sharing is not None}
        found = pool.machines[0].gpu.name
        gpu = next((key for key, profile in PROFILES.items() if profile.gpu == found), found)
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
    """Every job that is none or has no place, in the order of the config, with a reason for each pool."""
    for cluster, settings in fleet.clusters_by_name():
        for name in settings.jobs:
            try:
                place_stack_job(fleet, cluster, name)
            except JobError as error:
                yield Refusal(cluster, name, "; ".join(map(str, error.problems)), kind="job")


def require(fleet: Fleet) -> None:
    """Raise PlacementError when a job is none or cannot be placed, with a line for each."""
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


def _with_quota(found: Candidate, wanted: StackJob, settings: Cluster) -> Candidate:
    """The candidate, barred if the team of the job's queue has too little of the pool: the job would wait for ever."""
    if wanted.queue is None or settings.queues is None:
        return found
    team = team_of(wanted.namespace, settings.queues)
    quota = next((quota for quota in settings.queues.teams[team].quotas if quota.pool == found.pool), None)
    if quota is None:
        reason = f"team {team} has no quota of it; add one, or name another pool"
    elif settings.queues.cohort is None and wanted.gpus > quota.nominal:
        reason = f"team {team} has {quota.nominal} of it and nobody to borrow from, the job asks for {wanted.gpus}; raise nominal"
    elif quota.borrow is not None and wanted.gpus > quota.nominal + quota.borrow:
        most = quota.nominal + quota.borrow
        reason = f"team {team} has {most} of it with what it may borrow, the job asks for {wanted.gpus}; raise borrow"
    else:
        return found
    return dataclasses.replace(found, reasons=(*found.reasons, reason))


def _renamed(found: JobProblem) -> JobProblem:
    first, dot, rest = found.field.partition(".")
    return dataclasses.replace(found, field=f"{_KEYS.get(first, first)}{dot}{rest}")
