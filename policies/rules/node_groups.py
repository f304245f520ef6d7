"""The node groups of an EKS pool as one pool.

`GpuNodeGroup` creates a node group per zone. A rule about the size, the price or the zones of a pool must see them together:
each of them is smaller than the pool, and in one zone only.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from fleet.facts.groups import grouped
from fleet.facts.scheduling import POOL_LABEL

from .kinds import EKS_NODE_GROUP
from .pools import leaves
from .read import Data, Later, count, label, walk, whole
from .record import Resource, Unknown

_ALIKE = ("clusterName", "region", "amiType", "capacityType", "instanceTypes", "diskSize")
"""Properties of which size, price and GPUs depend. Groups of one pool have equal ones, so the first stands for all."""
_SIZES = ("minSize", "maxSize", "desiredSize", "maxGroupPreparedCapacity")


@dataclass(slots=True, eq=False)
class Pool(Resource):
    """Several node groups as one: sizes summed, subnets joined, and everything else, name and URN too, of the first.

    `groups` is how many node groups it has.
    """

    groups: int = 1


def pooled(resources: Iterable[Resource]) -> list[Resource]:
    """The resources in order, with the node groups of each EKS pool as one `Pool`, in the place of its first group.

    Groups are of one pool if they have the same pool label in the same cluster, the same machines and the same launch template.
    Those that leave are apart from those that stay.
    Other groups stay by themselves. Rules about taints, labels or versions judge each node group by itself.
    """
    members = grouped((_pool(resource), resource) for resource in resources)
    return [groups[0] if len(groups) == 1 else _together(groups) for groups in members.values()]


def _pool(resource: Resource) -> Data:
    """What the groups of a pool have in common; the URN of a resource that does not belong to a pool."""
    if resource.type != EKS_NODE_GROUP:
        return resource.urn
    props, provider = resource.props, resource.provider
    if not (name := Later().get(lambda: label(walk(props, "labels", POOL_LABEL)), "")):
        return resource.urn
    templates = tuple(template.urn for template in resource.property_dependencies.get("launchTemplate", ()))
    place = (provider.urn, _frozen(provider.props.get("region")))
    leaving = Later().get(lambda: leaves(EKS_NODE_GROUP, props), False)
    return (name, place, templates, leaving, *(_frozen(props.get(key)) for key in _ALIKE))


def _frozen(value: Data) -> str:
    """A value that can be compared and hashed. Two unknown values count as equal: the pool then has an unknown one, too."""
    return json.dumps(value, sort_keys=True, default=lambda mark: {"": type(mark).__name__})


def _together(groups: Sequence[Resource]) -> Pool:
    first = groups[0]
    props = dict(first.props)
    for key, join in _JOINED.items():
        if key in props:
            values = [group.props.get(key) for group in groups]
            props[key] = next((value for value in values if isinstance(value, Unknown)), None) or join(values)
    fields = sorted({field for group in groups for field in group.property_dependencies})
    return Pool(
        **{name: getattr(first, name) for name in ("type", "urn", "name", "opts", "provider", "parent")},
        props=props,
        dependencies=_once(group.dependencies for group in groups),
        property_dependencies={field: _once(group.property_dependencies.get(field, ()) for group in groups) for field in fields},
        groups=len(groups),
    )


def _summed(sizes: Sequence[Data]) -> Data:
    """The sums of sizes. If a size of a group is not a number, it stays unchanged for the rules to report."""
    if not isinstance(first := next(iter(sizes), None), Mapping):
        return first
    groups = [size if isinstance(size, Mapping) else {} for size in sizes]
    return {key: _sum([group.get(key) for group in groups]) if key in _SIZES else first[key] for key in first}


def _sum(values: Sequence[Data]) -> Data:
    unknown = [value for value in values if isinstance(value, Unknown)]
    odd = [value for value in values if whole(value) is None]
    return (unknown or odd or [sum(whole(value) or 0 for value in values)])[0]


_JOINED: Mapping[str, Callable[[Sequence[Data]], Data]] = {
    "scalingConfig": _summed,
    "warmPoolConfig": lambda sizes: _summed([size for size in sizes if size is not None]),
    "subnetIds": lambda lists: [item for items in lists if count(items) for item in items],
}
"""How the values of a property become the pool's. Only some groups may have a warm pool."""


def _once(resources: Iterable[Iterable[Resource]]) -> list[Resource]:
    return list({resource.urn: resource for resource in chain.from_iterable(resources)}.values())
