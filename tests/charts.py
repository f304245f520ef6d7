"""A whole scale set of a runner, and all manifests of the workloads of a cluster, for tests that read them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleet.charts.arc import Place, job_pod, pod_scale_set
from fleet.charts.chart import Chart
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import GPU_RESOURCE, GPU_TOLERATION, Toleration, pool_selector
from fleet.render.isolation import homes
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner, RunnerPod


def runner_set(
    name: str,
    runner: RunnerPod,
    github_url: str,
    group: str,
    tolerations: Sequence[Toleration] = (GPU_TOLERATION,),
    runtime_class: str = "",
    resource: str = GPU_RESOURCE,
    *,
    mounts_shm: bool = True,
    selectors: Sequence[Mapping[str, str]] | None = None,
    place: Place | None = None,
    usd_per_hour: str = "",
    per_node: int = 1,
) -> Chart:
    """One runner scale set: ephemeral runners as pods on the nodes of one of `selectors`, as `job_pod` has them.

    The default is the labels of the runner's pools. `per_node` is how many runners that wait a node holds.
    """
    if selectors is None:
        selectors = list(map(pool_selector, runner.ordered)) if isinstance(runner, PodRunner) else ()
    pod = job_pod(runner, selectors, tolerations, runtime_class, resource, mounts_shm=mounts_shm, usd_per_hour=usd_per_hour)
    return pod_scale_set(name, runner, github_url, group, pod, place=place or Place(), per_node=per_node)


def objects(cluster: Cluster) -> Iterator[Manifest]:
    """Every manifest of a cluster's workloads. Their namespaces with the network policies come first."""
    used = {workload.namespace for workload in cluster.workloads.values()}
    for name, home in homes(cluster).items():
        if name in used:
            yield from home.manifests
    for name in cluster.workloads:
        yield from workload_objects(cluster, name)
