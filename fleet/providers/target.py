"""The GPU pool of a cluster as a pod of it sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.charts.gpu_operator import runtime_class as operator_runtime_class
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import Toleration, pool_selector
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import GPU_OPERATOR
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool


@dataclass(frozen=True, slots=True)
class Target:
    """Where a pod is to land, and what it must say to get there and to get its GPUs.

    `resource` is what the pool's nodes advertise, `runtime_class` the one that a pod must name, empty where it needs none;
    `mounts_shm` says whether a pod may mount a /dev/shm of its own.
    """

    selector: dict[str, str]
    tolerations: Sequence[Toleration]
    runtime_class: str
    resource: str
    mounts_shm: bool


def pool_target(cluster: Cluster, name: str) -> Target:
    """The pool of this name in a cluster."""
    pool: Pool = cluster.pools[name]
    return Target(
        pool_selector(name),
        PROVIDERS[cluster.provider].profile.pod_tolerations(pool.capacity),
        runtime_class(cluster),
        pool.resource,
        pool.mounts_shm,
    )


def runtime_class(cluster: Cluster) -> str:
    """The RuntimeClass that GPU pods of a cluster name, if they must name one."""
    first = next(iter(cluster.pools.values()), None)
    if cluster.enablement != GPU_OPERATOR or first is None:
        return ""
    cdi = any(pool.cdi for pool in cluster.pools.values())
    return operator_runtime_class(NODE_IMAGES[first.image], cluster.operator or OperatorSettings(), cdi=cdi)
