"""The node groups of an EKS pool as one pool.

`GpuNodeGroup` creates a node group per zone. A rule about the size, the price or the zones of a pool must see them together:
each of them is smaller than the pool, and in one zone only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from pulumi_policy import PolicyResource
from pulumi_policy.proxy import UnknownValueError

from fleet.facts.scheduling import POOL_LABEL

from .kinds import EKS_NODE_GROUP
from .read import Later, label, walk, whole

_ALIKE = ("clusterName", "region", "amiType", "capacityType", "instanceTypes", "diskSize")
"""Properties of which size, price and GPUs depend. Groups of one pool have equal ones, so the first stands for all."""
_SIZES = ("minSize", "maxSize", "desiredSize", "maxGroupPreparedCapacity")
_UNKNOWN = "\0unknown"


class Pool(PolicyResource):
    """Several node groups as one: sizes summed, subnets joined, and everything else, name and URN too, of the first."""

    def __init__(self, groups: Sequence[PolicyResource]) -> None:
        first = groups[0]
        fields = sorted({field for each in groups for field in each.property_dependencies})
        super().__init__(
            first.resource_type,
            _Props([each.props for each in groups]),
            first.urn,
            first.name,
            first.opts,
            first.provider,
            first.parent,
            _once(each.dependencies for each in groups),
            {field: _once(each.property_dependencies.get(field, ()) for each in groups) for field in fields},
        )
        self.groups = len(groups)
        """How many node groups it has."""


def pooled(resources: Iterable[PolicyResource]) -> list[PolicyResource]:
    """The resources in order, with the node groups of each EKS pool as one `Pool`, in the place of its first group.

    Groups are of one pool if they have the same pool label in the same cluster, the same machines and the same launch template.
    Other groups stay by themselves. Rules about taints, labels or versions judge each node group by itself.
    """
    held: dict[Any, list[PolicyResource]] = {}
    for resource in resources:
        held.setdefault(_pool(resource), []).append(resource)
    return [groups[0] if len(groups) == 1 else Pool(groups) for groups in held.values()]


def _pool(resource: PolicyResource) -> Any:
    """What the groups of a pool have in common; the URN of a resource that does not belong to a pool."""
    if resource.resource_type != EKS_NODE_GROUP:
        return resource.urn
    props, provider = resource.props, resource.provider
    name = ""
    with Later():
        name = label(walk(props, "labels", POOL_LABEL))
    if not name:
        return resource.urn
    templates = tuple(each.urn for each in resource.property_dependencies.get("launchTemplate", ()))
    place = (provider.urn, _frozen(partial(walk, provider.props, "region"))) if provider is not None else None
    return (name, place, templates, *(_frozen(partial(walk, props, key)) for key in _ALIKE))


def _frozen(read: Callable[[], Any]) -> Any:
    """A value that can be compared and hashed. Two unknown values count as equal: the pool then has an unknown one, too."""
    try:
        value = read()
    except UnknownValueError:
        return _UNKNOWN
    if isinstance(value, Mapping):
        return tuple((key, _frozen(partial(value.__getitem__, key))) for key in sorted(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_frozen(partial(value.__getitem__, index)) for index in range(len(value)))
    return type(value).__name__, value


def _once(found: Iterable[Iterable[PolicyResource]]) -> list[PolicyResource]:
    return list({each.urn: each for each in chain.from_iterable(found)}.values())


class _Props(Mapping[str, Any]):
    """The properties of several groups. It reads them as late as the SDK's proxies do, because an unknown one raises."""

    def __init__(self, groups: Sequence[Mapping[str, Any]]) -> None:
        self._groups = groups

    def __getitem__(self, key: str) -> Any:
        first = self._groups[0][key]
        if key == "scalingConfig" and isinstance(first, Mapping):
            return _Sizes([walk(each, key) for each in self._groups])
        if key == "warmPoolConfig":
            return _Sizes([held for each in self._groups if (held := walk(each, key)) is not None])
        if key == "subnetIds":
            return _Joined([walk(each, key) for each in self._groups])
        return first

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups[0])

    def __len__(self) -> int:
        return len(self._groups[0])


class _Sizes(Mapping[str, Any]):
    """The sums of sizes. If a size of a group is not a number, it stays unchanged for the rules to report."""

    def __init__(self, groups: Sequence[Any]) -> None:
        self._groups = groups

    def __getitem__(self, key: str) -> Any:
        first = self._groups[0][key]
        values = [walk(each, key) for each in self._groups]
        numbers = [whole(value) for value in values]
        if key not in _SIZES or None in numbers:
            return next((value for value in values if whole(value) is None), first)
        return sum(number for number in numbers if number is not None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups[0])

    def __len__(self) -> int:
        return len(self._groups[0])


class _Joined(Sequence[Any]):
    """Several lists one after the other; a value of another type counts as empty."""

    def __init__(self, lists: Iterable[Any]) -> None:
        self._lists = [each for each in lists if isinstance(each, Sequence) and not isinstance(each, str)]

    def __getitem__(self, index: Any) -> Any:
        for each in self._lists:
            if index < len(each):
                return each[index]
            index -= len(each)
        raise IndexError(index)

    def __len__(self) -> int:
        return sum(map(len, self._lists))
