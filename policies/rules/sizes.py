"""Where each kind of pool says how many nodes it keeps, starts with, and may have."""

from __future__ import annotations

from typing import Any

from pulumi_policy import PolicyResourceOptions

from fleet.facts.scheduling import MOST_NODES_TAG

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL
from .read import walk, whole

OKE_SIZE = ("nodeConfigDetails", "size")
OKE_MOST = ("freeformTags", MOST_NODES_TAG)
"""A pool's maximum is an argument of the autoscaler, which a preview cannot know: it has the pool's OCID in it."""

LEAST: dict[str, tuple[str, ...]] = {
    EKS_NODE_GROUP: ("scalingConfig", "minSize"),
    AUTO_SCALING_GROUP: ("minSize",),
    OKE_NODE_POOL: OKE_SIZE,
    KARPENTER_NODE_POOL: ("spec", "replicas"),
}
"""The nodes that a pool always keeps. OKE's size is the first number of nodes, and the least where an autoscaler has the rest."""

FIRST: dict[str, tuple[str, ...]] = {EKS_NODE_GROUP: ("scalingConfig", "desiredSize"), AUTO_SCALING_GROUP: ("desiredCapacity",)}
"""The nodes that it starts with, where that is another number."""

_MOST: dict[str, tuple[str, ...]] = {
    EKS_NODE_GROUP: ("scalingConfig", "maxSize"),
    AUTO_SCALING_GROUP: ("maxSize",),
    KARPENTER_NODE_POOL: ("spec", "limits", "nodes"),
}


def least(token: str, props: Any) -> int:
    """The least number of nodes of a pool; 0 if it sets none. Raises UnknownValueError."""
    return whole(walk(props, *LEAST[token])) or 0


def most(token: str, props: Any, opts: PolicyResourceOptions) -> tuple[tuple[str, ...], Any]:
    """Path and value of the most nodes that a pool may have; the value is None where it does not say. Raises UnknownValueError.

    An OKE pool whose size the program does not own may grow to what its tag says, and to anything without one.
    """
    if token != OKE_NODE_POOL:
        return _MOST[token], walk(props, *_MOST[token])
    tagged = walk(props, *OKE_MOST)
    if tagged is not None or ignored(opts, OKE_SIZE):
        return OKE_MOST, tagged
    return OKE_SIZE, walk(props, *OKE_SIZE)


def ignored(opts: PolicyResourceOptions, path: tuple[str, ...]) -> bool:
    """Whether the program leaves a property to others (ignoreChanges): it, all of what holds it, or everything."""
    heads = {".".join(path[: length + 1]) for length in range(len(path))}
    return any(each in heads or each == "*" for each in opts.ignore_changes)
