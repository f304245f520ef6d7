"""Which node labels mean a GPU node: derived from `fleet.facts.scheduling`, so that it stays the only place that spells them."""

from __future__ import annotations

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
"""Labels that tell pools apart: a pod that selects on one wants a GPU pool, a pool that carries one may still be a CPU pool."""

_ANY = "*"
_BOTH = (POOL_LABEL, ROLE_LABEL)
"""On GPU pools and on the system pool alike: only the value tells."""
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
"""The taints that GPU nodes carry, by whatever provider, with either effect that keeps pods off."""


def telling(key: str) -> bool:
    """Whether a label's value can mean a GPU node: the others need not be read, so they may be unknown."""
    return key in (*_BOTH, *_ONLY_GPU, INSTANCE_TYPE_LABEL) or key.startswith(_DISCOVERED)


def means_gpu(key: str, value: str) -> bool:
    """Whether nodes with this label are GPU nodes."""
    if key in _BOTH:
        return value not in ("", SYSTEM_POOL)
    wanted = _ONLY_GPU.get(key)
    if wanted is not None:
        return wanted in (_ANY, value)
    return key.startswith(_DISCOVERED)


def key_means_gpu(key: str) -> bool:
    """Whether nodes that have this label at all, with any value, are GPU nodes."""
    return _ONLY_GPU.get(key) == _ANY or key.startswith(_DISCOVERED)
