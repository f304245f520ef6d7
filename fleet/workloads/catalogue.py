"""Every kind of workload: what makes its manifests, and which image it runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.charts.chart import Level
from fleet.cluster import Cluster
from fleet.providers import PROVIDERS
from fleet.versions import Image
from fleet.workloads import comfyui, coral, device_query, nvidia_smi, ollama, pytorch, tf_mnist, tf_notebook
from fleet.workloads.home import home
from fleet.workloads.parts import Manifest, Meta
from fleet.workloads.settings import CoralWorkload, PoolWorkload, Workload
from fleet.workloads.target import pool_target


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: `make(meta, settings, target)` gives its manifests."""

    make: Callable[..., tuple[Manifest, ...]]
    image: Image


KINDS: Mapping[str, Kind] = {
    "nvidia-smi": Kind(nvidia_smi.nvidia_smi, nvidia_smi.IMAGE),
    "pytorch": Kind(pytorch.pytorch, pytorch.IMAGE),
    "device-query": Kind(device_query.device_query, device_query.IMAGE),
    "tf-mnist": Kind(tf_mnist.tf_mnist, tf_mnist.IMAGE),
    "tf-notebook": Kind(tf_notebook.tf_notebook, tf_notebook.IMAGE),
    "ollama": Kind(ollama.ollama, ollama.IMAGE),
    "comfyui": Kind(comfyui.comfyui, comfyui.IMAGE),
    "coral": Kind(coral.coral, coral.IMAGE),
}


def workload_objects(cluster: Cluster, name: str) -> tuple[Manifest, ...]:
    """The manifests of one workload of a cluster, without its namespace, in the order in which they are to be applied."""
    workload: Workload = cluster.workloads[name]
    meta = Meta(name, workload.namespace, workload.kind)
    make = KINDS[workload.kind].make
    if isinstance(workload, PoolWorkload):
        return make(meta, workload, pool_target(cluster, workload.pool))
    if isinstance(workload, CoralWorkload) and workload.pool is not None:
        return make(meta, workload, PROVIDERS[cluster.provider].profile.pod_tolerations(cluster.pools[workload.pool].capacity))
    return make(meta, workload)


def homes(cluster: Cluster) -> dict[str, tuple[Manifest, Manifest]]:
    """Namespace and wall of each namespace that workloads of a cluster are in, by its name."""
    levels: dict[str, Level] = {each.namespace: each.level for each in cluster.workloads.values()}
    return {name: home(name, level, cluster.closed_networks, cluster.private_egress) for name, level in levels.items()}


def objects(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """Every manifest of a cluster's workloads: namespaces with their walls first."""
    for pair in homes(cluster).values():
        yield from pair
    for name in cluster.workloads:
        yield from workload_objects(cluster, name)
