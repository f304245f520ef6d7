"""The pods of a cluster that use a GPU or a device of a node, and the launchers of machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.charts.chart import Chart
from fleet.facts.scheduling import QUEUE_LABEL
from fleet.jobs.stack import place_stack_job
from fleet.prove.pod import PodAsk, pod_of
from fleet.prove.topology import Ask
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set
from fleet.providers.registry import provider_of
from fleet.render.placeholders import placeholders
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import CoralWorkload, PoolWorkload
from gpu_ci.offline.gfm import code

MACHINES = "runner set of machines"
"""The kind of a runner set whose runners are machines: its pods are launchers, which take no GPU."""


@dataclass(frozen=True, slots=True)
class User:
    """One runner set, workload or job: `least` to `most` pods with the pod spec `spec`, as the program deploys them.

    `level` is the Pod Security Standard of the namespace. `pools` are the GPU pools of the pods, the first choice first, empty if
    they are bound to none. `ask` is what one pod requests; launchers have none. `lasts` is "always" or "once", "" for runners.
    `queue` is the Kueue queue of a job, "" if it has none. `claims` has the size, class and access mode of the volume claims that
    the pods may mount, by name.
    """

    name: str
    kind: str
    namespace: str
    level: str
    spec: Mapping[str, Any]
    least: int
    most: int
    pools: tuple[str, ...] = ()
    ask: Ask | None = None
    lasts: str = ""
    queue: str = ""
    claims: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """Units of the pool's resource that one pod takes."""
        return self.ask.gpus if self.ask is not None else 0

    @property
    def container(self) -> Mapping[str, Any]:
        """The container of the pod: every pod of the program has exactly one."""
        (container,) = self.spec["containers"]
        only: Mapping[str, Any] = container
        return only


def users(fleet: Fleet, cluster: str) -> Iterator[User]:
    """All users of a cluster, in the order of the settings. Raises JobError for a job that fits in no pool."""
    settings: Cluster = fleet.clusters[cluster]
    yield from _runner_sets(settings, set_charts(fleet, cluster))
    yield from _workloads(settings)
    yield from _placeholders(settings)
    yield from _jobs(fleet, cluster)


def set_charts(fleet: Fleet, cluster: str) -> dict[str, Chart]:
    """The chart of each runner scale set of a cluster, by the set's name."""
    settings: Cluster = fleet.clusters[cluster]
    own = {chart.name: chart for chart in provider_of(settings).charts(settings, cluster, fleet.github)}
    return {
        name: pod_set(settings, name, runner, fleet.github) if isinstance(runner, PodRunner) else own[name]
        for name, runner in settings.runners.items()
    }


def _runner_sets(settings: Cluster, charts: Mapping[str, Chart]) -> Iterator[User]:
    for name, runner in settings.runners.items():
        spec, span = charts[name].values["template"]["spec"], runner.span
        where = (charts[name].namespace, charts[name].pod_security, spec, span.min, span.max)
        if isinstance(runner, PodRunner):
            yield User(name, "runner set", *where, runner.ordered, runner)
        else:
            yield User(name, MACHINES, *where)


def _workloads(settings: Cluster) -> Iterator[User]:
    for name, workload in settings.workloads.items():
        objects = workload_objects(settings, name)
        (workload_object,) = (manifest for manifest in objects if manifest["kind"] in ("Deployment", "Job"))
        claims = {
            manifest["metadata"]["name"]: _claim(manifest["spec"])
            for manifest in objects
            if manifest["kind"] == "PersistentVolumeClaim"
        }
        pods = workload_object["spec"].get("replicas", 1)
        yield User(
            name,
            workload.kind,
            workload.namespace,
            settings.team_namespaces[workload.namespace],
            workload_object["spec"]["template"]["spec"],
            pods,
            pods,
            pools=(workload.pool,) if isinstance(workload, PoolWorkload | CoralWorkload) and workload.pool else (),
            ask=PodAsk(
                workload.units if isinstance(workload, PoolWorkload) else 0, workload.cpu, workload.memory, workload.scratch
            ),
            lasts="always" if workload_object["kind"] == "Deployment" else "once",
            claims=claims,
        )


def _placeholders(settings: Cluster) -> Iterator[User]:
    level = settings.team_namespaces.get(PLACEHOLDER_NAMESPACE, "")
    for name, manifest in placeholders(settings).items():
        spec, count = manifest["spec"]["template"]["spec"], manifest["spec"]["replicas"]
        pod = pod_of(name, manifest)
        ask = pod.ask(settings.pools[name].resource) if pod is not None else None
        where = (PLACEHOLDER_NAMESPACE, level, spec, count, count)
        yield User(f"{name}-placeholders", "placeholders", *where, pools=(name,), ask=ask, lasts="always")


def _claim(spec: Mapping[str, Any]) -> str:
    of_class = f"class {code(spec['storageClassName'])}" if "storageClassName" in spec else "the default class"
    return f"{spec['resources']['requests']['storage']}, {of_class}, {spec['accessModes'][0]}"


def _jobs(fleet: Fleet, cluster: str) -> Iterator[User]:
    settings: Cluster = fleet.clusters[cluster]
    caches = {
        name: f"{memory_text(cache.size)}, class {code(class_name(name))}, {cache.access_mode}"
        for name, cache in settings.caches_by_name()
    }
    for name, job in settings.jobs.items():
        placed = place_stack_job(fleet, cluster, name)
        manifest = placed.manifest()
        yield User(
            name,
            "job",
            job.namespace,
            settings.team_namespaces[job.namespace],
            manifest["spec"]["template"]["spec"],
            1,
            1,
            pools=tuple(place.pool for place in (placed.chosen, *placed.behind)),
            ask=placed.job.ask,
            lasts="once",
            queue=manifest["metadata"].get("labels", {}).get(QUEUE_LABEL, ""),
            claims=caches,
        )
