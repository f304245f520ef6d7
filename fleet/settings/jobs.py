"""GPU Jobs that belong to a stack: the arguments of `fleet.jobs.create_gpu_job` as settings.

`fleet.jobs.stack` checks their arguments and whether a pool can hold each job.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from fleet.facts.scheduling import DEFAULT_QUEUE, JOB_PRIORITIES
from fleet.settings.caches import Cache
from fleet.settings.model import Cpu, DnsLabel, Duration, Labels, Memory, Model
from fleet.settings.namespaces import TeamNamespace
from fleet.settings.pool import require_pool, require_same_gpus
from fleet.settings.queues import Queues
from fleet.settings.refusals import problem, refusal, refuse_if, refuses, require_once
from fleet.settings.workloads import Workload


def _priority(name: str) -> None:
    names = [priority.name for priority in JOB_PRIORITIES]
    refuse_if("job_priority", name not in names, names=", ".join(names))


class StackJob(Model):
    """A Job that runs once, when it is new or changed. docs/jobs.md explains its keys. Sizes are limits of the whole job."""

    namespace: TeamNamespace
    """Namespace of the job."""
    image: str
    """Container image with a version or digest; `latest` is not allowed. Example: `ghcr.io/acme/train:1.4`"""
    command: tuple[str, ...] = ()
    """Command of the container, as a list of words: no shell runs it. Default: that of the image."""
    args: tuple[str, ...] = ()
    """Arguments of the command, as a list of words. Default: those of the image. Example: `[--epochs, "3"]`"""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables by name. Values that look like secrets are refused. Example: `{EPOCHS: "3"}`"""
    secret_env: dict[str, tuple[str, str]] = Field(default_factory=dict)
    """Environment variables from Secrets, by name: a Secret of the namespace and a key in it. The values are never in the stack's
    settings or state. Example: `{HF_TOKEN: [hugging-face, token]}`"""
    pool: str | None = None
    """The only pool of the job. A job names `pool`, `pools` or `gpuType`."""
    pools: tuple[str, ...] = ()
    """Pools of the job, the first choice first. Each must hold the job (docs/fallback.md). Example: `[t4-spot, t4-ondemand]`"""
    gpu_type: str | None = None
    """GPU model: the job runs in the cheapest pool of the cluster with this GPU that holds it (docs/jobs.md). Example: `t4`"""
    gpus: Annotated[int, Field(ge=1)] = 1
    """GPUs of the job, or shares if the pool shares its GPUs. Unit: GPUs or shares. Example: `4`"""
    cpu: Cpu | None = None
    """CPU limit of the whole job. Default: that of the GPU model (docs/jobs.md). Unit: cores, or millicores with m."""
    memory: Memory | None = None
    """Memory limit of the whole job. Default: that of the GPU model (docs/jobs.md)."""
    scratch: Memory | None = None
    """Disk space that the scheduler reserves for files outside of volumes. Default: 20Gi. Example: `50Gi`"""
    shm: Memory | None = None
    """Size of /dev/shm. What is in it counts against the memory limit. Default: an eighth of the memory limit."""
    spot: bool = False
    """With `gpuType`: whether a pool of spot machines is allowed too. Example: `true`"""
    shared: bool = False
    """With `gpuType`: whether the job uses pools that share their GPUs. Example: `true`"""
    cache: str | None = None
    """Name of a cache of the cluster that the job's namespace has. It is mounted at `cachePath`."""
    cache_path: str | None = None
    """Path of the cache in the container. Default: /models. Example: `/data`"""
    cache_read_only: bool = False
    """Whether the job only reads the cache."""
    workspace: str | None = None
    """Name of a claim for the job's own files: that of a cache, or an existing one. Example: `scratch`"""
    workspace_path: str | None = None
    """Path of the workspace in the container. Default: /workspace. Example: `/work`"""
    queue: DnsLabel | None = None
    """Queue of the job. Default: that of the team that owns the namespace (docs/queues.md)."""
    priority: Annotated[str, refuses(_priority)] | None = None
    """Priority class of the job. Default: `medium-priority` in a queue, else `gpu-ci-runner`."""
    deadline: Duration | None = None
    """Time for all tries together. Default: 2h."""
    backoff_limit: Annotated[int, Field(ge=0)] | None = None
    """Retries of the job. Default: 3. Unit: retries. Example: `1`"""
    labels: Labels = Field(default_factory=dict)
    """Labels of the Job and its pods. Example: `{example.com/team: vision}`"""

    @property
    def ordered(self) -> tuple[str, ...]:
        """The pools that it names, the first choice first. None with gpuType."""
        return self.pools if self.pool is None else (self.pool,)

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that the job mounts, each once."""
        return tuple(dict.fromkeys(filter(None, (self.cache, self.workspace))))

    @refusal
    def _one_place(self) -> None:
        """Refuse a job that does not name exactly one of pool, pools and gpuType, and a pool given twice."""
        # The error does not show the job, because its variables may be secrets.
        refuse_if("job_place", [self.pool is None, not self.pools, self.gpu_type is None].count(False) != 1, private=True)
        require_once("repeated_pool", self.pools, at=("pools",))
        if self.ordered:
            for key, value in (("spot", self.spot), ("shared", self.shared)):
                refuse_if("job_pool_known", value, at=(key,), key=key)


def require_jobs(
    jobs: Mapping[str, StackJob],
    pools: Mapping[str, Any],
    caches: Mapping[str, Cache],
    queues: Queues | None,
    workloads: Mapping[str, Workload],
) -> None:
    """Refuse jobs whose pools, cache or queue do not exist for them, pools that differ, and jobs with the name of a workload.

    Raises a settings problem.
    """
    for name, job in jobs.items():
        at = ("jobs", name)
        if name in workloads and workloads[name].namespace == job.namespace:
            raise problem("job_name", at=at, value=name, namespace=job.namespace)
        for index, pool in enumerate(job.ordered):
            path = (*at, *(("pool",) if job.pool is not None else ("pools", str(index))))
            require_pool("job_pool", pool, pools, at=path)
            require_same_gpus("job_pools_mixed", pool, job.ordered[0], pools, at=path)
        here = [cache for cache, settings in caches.items() if job.namespace in settings.namespaces]
        if job.cache is not None and job.cache not in here:
            raise problem("job_cache", at=(*at, "cache"), namespace=job.namespace, here=", ".join(here) or "no cache")
        team = team_of(job.namespace, queues)
        owner = f"team {team}, whose queue has its name" if team else "no team with a queue"
        if job.queue is not None and job.queue not in ((team, DEFAULT_QUEUE) if team else ()):
            raise problem("job_queue", at=(*at, "queue"), namespace=job.namespace, owner=owner)


def team_of(namespace: str, queues: Queues | None) -> str:
    """The team whose queue takes the Jobs of a namespace; empty if there is none."""
    teams = queues.teams if queues is not None else {}
    return next((name for name, team in teams.items() if namespace in team.namespaces), "")
