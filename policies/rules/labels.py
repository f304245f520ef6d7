"""The node labels of GPU nodes, derived from `fleet.facts.scheduling`, the only place that defines them."""

from fleet.facts.scheduling import (
    CAPACITY_LABEL,
    CLUSTER_LABEL,
    EKS_PROFILE,
    GPU_TAINT_KEY,
    POOL_LABEL,
    ROLE_LABEL,
    SYSTEM_POOL,
    VOCABULARY,
    Effect,
    Taint,
    pool_labels,
)

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Kubernetes' well-known label; its value is a machine's name."""

PLACEMENT_LABELS = (POOL_LABEL, ROLE_LABEL, CAPACITY_LABEL)
"""Labels that distinguish pools. A pod that selects on one wants a GPU pool; a pool with one may still be a CPU pool."""

_ANY = "*"
_BOTH = (POOL_LABEL, ROLE_LABEL)
"""GPU pools and the system pool both have these labels, with different values."""
_ONLY_GPU = {
    key: value
    for key, value in pool_labels(
        cluster=_ANY, pool=_ANY, role=_ANY, capacity=_ANY, accelerator=_ANY, profile=EKS_PROFILE
    ).items()
    if key not in (CLUSTER_LABEL, *_BOTH)
}
# GPU feature discovery puts its labels under this prefix (nvidia.com/gpu.product, nvidia.com/mig.capable …).
_DISCOVERED = "nvidia.com/"

GPU_TAINTS = tuple(
    Taint(GPU_TAINT_KEY, term.text.partition("=")[2].partition(":")[0], effect)
    for term in VOCABULARY
    if term.kind == "taint" and term.key == GPU_TAINT_KEY
    for effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
)
"""The taints of GPU nodes of every provider, with both effects that keep pods off."""


def marks_gpus(key: str) -> bool:
    """Whether this label can mark a GPU node. Other labels are not read, so their values may be unknown."""
    return key in (*_BOTH, *_ONLY_GPU, INSTANCE_TYPE_LABEL) or key.startswith(_DISCOVERED)


def means_gpu(key: str, value: str) -> bool:
    """Whether nodes with this label are GPU nodes."""
    if key in _BOTH:
        return value not in ("", SYSTEM_POOL)
    marker = _ONLY_GPU.get(key)
    if marker is not None:
        return marker in (_ANY, value)
    return key.startswith(_DISCOVERED)


def key_means_gpu(key: str) -> bool:
    """Whether nodes that have this label at all, with any value, are GPU nodes."""
    return _ONLY_GPU.get(key) == _ANY or key.startswith(_DISCOVERED)
