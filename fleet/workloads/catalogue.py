"""Every kind of workload: what makes its manifests, and which image it runs unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fleet.cluster import Cluster
from fleet.providers import PROVIDERS
from fleet.team_namespace import homes
from fleet.versions import Image
from fleet.workloads import comfyui, coral, device_query, nvidia_smi, ollama, pytorch, tf_mnist, tf_notebook
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


def objects(cluster: Cluster) -> Iterator[Manifest]:
    """Every manifest of a cluster's workloads: their namespaces with the walls first."""
    held = {each.namespace for each in cluster.workloads.values()}
    for name, home in homes(cluster).items():
        if name in held:
            yield from home.manifests
    for name in cluster.workloads:
        yield from workload_objects(cluster, name)
