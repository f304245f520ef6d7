"""How a pool may buy its machines: `fleet.facts.hardware`'s capacity types.

- EKS: `capacityType`; CAPACITY_BLOCK is a capacity block. A group in a capacity reservation is ON_DEMAND and its reservation is
  in the launch template, so the rules trust the group's own label `gpu-ci/capacity=reserved`.
- OKE: each placement, which is preemptible, in a reservation or on-demand.
- Karpenter: its requirements, joined by AND. Without a requirement on the capacity type, a pool may buy every type
  (karpenter.sh, NodePools).
- Auto Scaling groups: the distribution of a mixed instances policy. Without one the launch template decides, and the rules do
  not read that.
"""

from collections.abc import Callable

from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, RESERVED, SPOT
from fleet.facts.scheduling import CAPACITY_LABEL

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL
from .pools import requirements
from .read import Data, Later, entries, keys, text, walk, whole

CAPACITY_KEY = "karpenter.sh/capacity-type"
_EVERY = frozenset((SPOT, ON_DEMAND, RESERVED))
_ALL_ON_DEMAND = 100


def bought(token: str, props: Data) -> frozenset[str]:
    """The capacity types that a pool may buy; none if its requirements exclude all. Raises UnknownError."""
    return _READERS[token](props)


def _eks(props: Data) -> frozenset[str]:
    capacity = text(walk(props, "capacityType"))
    if capacity == "SPOT":
        return frozenset((SPOT,))
    if capacity == "CAPACITY_BLOCK":
        return frozenset((CAPACITY_BLOCK,))
    if text(walk(props, "labels", CAPACITY_LABEL)) == RESERVED:
        return frozenset((RESERVED,))
    return frozenset((ON_DEMAND,))


def _oke(props: Data) -> frozenset[str]:
    later = Later()
    types = set()
    for _, place in entries(props, "nodeConfigDetails.placementConfigs", later):
        if keys(walk(place, "preemptibleNodeConfig")):
            types.add(SPOT)
        else:
            types.add(RESERVED if text(walk(place, "capacityReservationId")) else ON_DEMAND)
    later.settle()
    return frozenset(types or {ON_DEMAND})


def _karpenter(props: Data) -> frozenset[str]:
    later = Later()
    allowed = _EVERY
    for _, key, operator, item in requirements(props, later):
        if key != CAPACITY_KEY:
            continue
        types = frozenset(text(name) for _, name in entries(item, "values", later))
        if operator == "In":
            allowed &= types
        elif operator == "NotIn":
            allowed -= types
    later.settle()
    return allowed


def _scaling_group(props: Data) -> frozenset[str]:
    spread = walk(props, "mixedInstancesPolicy", "instancesDistribution")
    above = whole(walk(spread, "onDemandPercentageAboveBaseCapacity"))
    if above is None or above >= _ALL_ON_DEMAND:
        return frozenset((ON_DEMAND,))
    only_spot = not above and not whole(walk(spread, "onDemandBaseCapacity"))
    return frozenset((SPOT,)) if only_spot else frozenset((SPOT, ON_DEMAND))


_READERS: dict[str, Callable[[Data], frozenset[str]]] = {
    EKS_NODE_GROUP: _eks,
    OKE_NODE_POOL: _oke,
    KARPENTER_NODE_POOL: _karpenter,
    AUTO_SCALING_GROUP: _scaling_group,
}
