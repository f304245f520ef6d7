"""The settings that a pod needs to run in a pool."""

from collections.abc import Sequence

from fleet.charts.gpu_operator import runtime_class as operator_runtime_class
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.record import Record
from fleet.facts.scheduling import Toleration
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import GPU_OPERATOR
from fleet.settings.operator import OperatorSettings
from fleet.settings.pool import Pool


class Target(Record):
    """The node labels, tolerations and resource of pods of one pool, or of several in order.

    `selectors` has the node selector of each pool, the first choice first. The nodes advertise `resource`. `runtime_class` is
    empty if a pod needs none. `mounts_shm`: whether a pod may mount its own /dev/shm.
    """

    selectors: Sequence[dict[str, str]]
    tolerations: Sequence[Toleration]
    runtime_class: str
    resource: str
    mounts_shm: bool

    @property
    def selector(self) -> dict[str, str]:
        """The node selector of pods that have one pool."""
        (selector,) = self.selectors
        return selector


def pool_target(cluster: Cluster, *names: str) -> Target:
    """The target for pods of these pools, the first choice first. The settings refuse pools that share GPUs differently."""
    pools: list[Pool] = [cluster.pools[name] for name in names]
    profile = PROVIDERS[cluster.provider].profile
    return Target(
        [pool.node_selector(name) for name, pool in zip(names, pools, strict=True)],
        tuple(dict.fromkeys(toleration for pool in pools for toleration in pool.tolerations(profile))),
        runtime_class(cluster) if pools[0].has_gpus else "",
        pools[0].resource,
        pools[0].mounts_shm,
    )


def runtime_class(cluster: Cluster) -> str:
    """The RuntimeClass that GPU pods of a cluster need, or an empty string."""
    first = next(iter(cluster.gpu_pools.values()), None)
    if cluster.enablement != GPU_OPERATOR or first is None:
        return ""
    cdi = any(pool.cdi for pool in cluster.pools.values())
    return operator_runtime_class(NODE_IMAGES[first.image], cluster.operator or OperatorSettings(), cdi=cdi)
