"""Whoever takes GPUs or a device of a cluster's nodes by a pod: runner sets, workloads, jobs, and launchers of machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fleet.charts import Chart
from fleet.facts.scheduling import POD_SECURITY_LABEL, POOL_LABEL, QUEUE_LABEL
from fleet.jobs.stack import place_stack_job
from fleet.prove.placement import Fit, fit, pool_host
from fleet.providers.fleet import Fleet
from fleet.render.team_namespace import homes
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.workloads import CoralWorkload
from offline.inventory.pods import Pod, pod_of
from offline.inventory.sets import set_charts


class Group(StrEnum):
    """Which part of the settings a user is of; `LAUNCHER` takes no GPU itself, it boots the machine that does."""

    RUNNERS = "runner set"
    LAUNCHER = "launcher"
    WORKLOAD = "workload"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that a pod mounts: its size as written, its storage class (empty: the cluster's default) and how it is mounted."""

    size: str
    storage_class: str
    mode: str


@dataclass(frozen=True, slots=True)
class User:
    """One of them. `kind` says which workload it is, else its group; `level` is the Pod Security Standard of its namespace.

    `pool` is the GPU pool whose nodes it lands on, empty of one that is bound to none. There are `least` to `most` of its pods;
    one that does not stand ends by itself. `fits` says how many of it alone one node of each of the pool's types holds.
    """

    name: str
    group: Group
    kind: str
    namespace: str
    level: str
    pool: str
    pod: Pod
    least: int
    most: int
    stands: bool
    fits: tuple[Fit, ...] = ()
    queue: str = ""
    claims: Mapping[str, Claim] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """Units of its pool's resource that all of its pods take together."""
        return self.most * self.pod.gpus


def users(fleet: Fleet, cluster: str) -> tuple[User, ...]:
    """All of a cluster, in the order of the settings. The fleet is one whose jobs have a place (`fleet.jobs.stack.require`)."""
    settings: Cluster = fleet.clusters[cluster]
    return (*_sets(settings, set_charts(fleet, cluster)), *_workloads(settings), *_jobs(fleet, cluster))


def _sets(settings: Cluster, charts: Mapping[str, Chart]) -> Iterator[User]:
    for name, chart in charts.items():
        values = chart.values
        pod = pod_of(values["template"]["spec"])
        pool = pod.selector[POOL_LABEL] if pod.gpus else ""
        group = Group.RUNNERS if pod.gpus else Group.LAUNCHER
        yield User(
            name,
            group,
            group.value,
            chart.namespace,
            chart.pod_security,
            pool,
            pod,
            values["minRunners"],
            values["maxRunners"],
            stands=False,
            fits=_fits(settings, pool, pod),
        )


def _workloads(settings: Cluster) -> Iterator[User]:
    for name, workload in settings.workloads.items():
        objects = workload_objects(settings, name)
        (made,) = (each for each in objects if each["kind"] in ("Deployment", "Job"))
        pod = pod_of(made["spec"]["template"]["spec"])
        # A Coral's node may be one of a pool, which its selector does not say.
        pool = (workload.pool or "") if isinstance(workload, CoralWorkload) else pod.selector[POOL_LABEL]
        pods = made["spec"].get("replicas", 1)
        yield User(
            name,
            Group.WORKLOAD,
            workload.kind,
            made["metadata"]["namespace"],
            _level(settings, made),
            pool,
            pod,
            pods,
            pods,
            stands=made["kind"] == "Deployment",
            fits=_fits(settings, pool, pod),
            claims={each["metadata"]["name"]: _claim(each) for each in objects if each["kind"] == "PersistentVolumeClaim"},
        )


def _jobs(fleet: Fleet, cluster: str) -> Iterator[User]:
    settings: Cluster = fleet.clusters[cluster]
    for name, job in settings.jobs.items():
        made = place_stack_job(fleet, cluster, name).manifest()
        pod = pod_of(made["spec"]["template"]["spec"])
        pool = pod.selector[POOL_LABEL]
        caches = {cache: held for cache, held in settings.caches_by_name() if job.namespace in held.namespaces}
        yield User(
            name,
            Group.JOB,
            Group.JOB.value,
            made["metadata"]["namespace"],
            _level(settings, made),
            pool,
            pod,
            1,
            1,
            stands=False,
            fits=_fits(settings, pool, pod),
            queue=made["metadata"].get("labels", {}).get(QUEUE_LABEL, ""),
            claims={cache: Claim(memory_text(held.size), class_name(cache), held.access_mode) for cache, held in caches.items()},
        )


def _fits(settings: Cluster, pool: str, pod: Pod) -> tuple[Fit, ...]:
    if not (pool and pod.gpus):
        return ()
    host = pool_host(settings, pool)
    return tuple(fit(pod, machine, host) for machine in host.machines)


def _level(settings: Cluster, made: Mapping[str, Any]) -> str:
    """What the namespace of an object enforces."""
    home = homes(settings)[made["metadata"]["namespace"]]
    return str(home.namespace["metadata"]["labels"][POD_SECURITY_LABEL])


def _claim(made: Mapping[str, Any]) -> Claim:
    spec = made["spec"]
    return Claim(spec["resources"]["requests"]["storage"], spec.get("storageClassName", ""), spec["accessModes"][0])
