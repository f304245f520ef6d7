"""Paths of the least, first and largest number of nodes in each kind of pool."""

from fleet.facts.scheduling import MOST_NODES_TAG

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL
from .read import Data, walk, whole
from .record import Options

OKE_SIZE = ("nodeConfigDetails", "size")
OKE_MOST = ("freeformTags", MOST_NODES_TAG)
"""The tag with the maximum. The autoscaler's argument also has it, but with the pool's OCID, so a preview does not know it."""

LEAST: dict[str, tuple[str, ...]] = {
    EKS_NODE_GROUP: ("scalingConfig", "minSize"),
    AUTO_SCALING_GROUP: ("minSize",),
    OKE_NODE_POOL: OKE_SIZE,
    KARPENTER_NODE_POOL: ("spec", "replicas"),
}
"""The nodes that a pool always keeps. OKE's size is the first number of nodes, and the least if an autoscaler scales the pool."""

FIRST: dict[str, tuple[str, ...]] = {EKS_NODE_GROUP: ("scalingConfig", "desiredSize"), AUTO_SCALING_GROUP: ("desiredCapacity",)}
"""The nodes that it starts with, if a separate property says so."""

_MOST: dict[str, tuple[str, ...]] = {
    EKS_NODE_GROUP: ("scalingConfig", "maxSize"),
    AUTO_SCALING_GROUP: ("maxSize",),
    KARPENTER_NODE_POOL: ("spec", "limits", "nodes"),
}


def least(token: str, props: Data) -> int:
    """The least number of nodes of a pool; 0 if it sets none. Raises UnknownError."""
    return whole(walk(props, *LEAST[token])) or 0


def most(token: str, props: Data, opts: Options) -> tuple[tuple[str, ...], Data]:
    """Path and value of the most nodes that a pool may have; the value is None if it sets none. Raises UnknownError.

    An OKE pool may grow to the maximum in its tag if the program ignores changes of its size. Without a tag it has no maximum.
    """
    if token != OKE_NODE_POOL:
        return _MOST[token], walk(props, *_MOST[token])
    tagged = walk(props, *OKE_MOST)
    if tagged is not None or ignored(opts, OKE_SIZE):
        return OKE_MOST, tagged
    return OKE_SIZE, walk(props, *OKE_SIZE)


def ignored(opts: Options, path: tuple[str, ...]) -> bool:
    """Whether `ignoreChanges` covers a property: its own path, an outer one, or `*`."""
    heads = {".".join(path[: length + 1]) for length in range(len(path))}
    return any(pattern in heads or pattern == "*" for pattern in opts.ignore_changes)
