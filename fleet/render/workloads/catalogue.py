"""The manifests of every kind of workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fleet.providers.registry import PROVIDERS
from fleet.providers.target import pool_target
from fleet.render.team_namespace import homes
from fleet.render.workloads import comfyui, coral, device_query, nvidia_smi, ollama, pytorch, tf_mnist, tf_notebook
from fleet.render.workloads.parts import Manifest, Meta
from fleet.settings.cluster import Cluster
from fleet.settings.workloads import CoralWorkload, PoolWorkload, Workload

MAKERS: Mapping[str, Callable[..., tuple[Manifest, ...]]] = {
    "nvidia-smi": nvidia_smi.nvidia_smi,
    "pytorch": pytorch.pytorch,
    "device-query": device_query.device_query,
    "tf-mnist": tf_mnist.tf_mnist,
    "tf-notebook": tf_notebook.tf_notebook,
    "ollama": ollama.ollama,
    "comfyui": comfyui.comfyui,
    "coral": coral.coral,
}
"""What makes the manifests of each kind: `make(meta, settings, target)`."""


def workload_objects(cluster: Cluster, name: str) -> tuple[Manifest, ...]:
    """The manifests of one workload of a cluster, without its namespace, in the order in which they are to be applied."""
    workload: Workload = cluster.workloads[name]
    meta = Meta(name, workload.namespace, workload.kind)
    make = MAKERS[workload.kind]
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
