"""spot-with-fallback: where spot runs out, there is a pool of the same GPU to send jobs to.

Judged: EKS managed node groups, OKE node pools and Karpenter NodePools, by cluster. A spot GPU pool has a *fallback*: another
pool with the same GPU model that does not buy spot. A runner set names one pool, so the fallback is a pool with a runner set
of its own, as release pools are. It keeps no node while it is not needed, and is small. A pool of reserved capacity is one
whatever its size, for it is paid already. A pool that may buy both (a Karpenter requirement, a placement of OKE without
preemption) is its own fallback; on-demand base capacity of a spot group is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.facts.hardware import ON_DEMAND, SPOT, machines
from fleet.facts.scheduling import GPU_RESOURCE

from . import schema
from .capacity import bought
from .clusters import Clustered, cluster_of, named
from .kinds import KARPENTER_NODE_POOL, OKE_CLUSTER, POOLS
from .machine_types import choices
from .places import setting
from .pools import FAMILY_LABEL, gpu_sign, requirements
from .read import Later, bound, entries, line, shown, text, walk, whole
from .rule import PolicyResource, Section, Severity, Stack, StackRule, Violation, unseen
from .sizes import LEAST, least, most

MAX_FALLBACK = 1

_GPU_LIMIT = ("spec", "limits", GPU_RESOURCE)
_NAMES = 5
_GPU_NAME = "karpenter.k8s.aws/instance-gpu-name"


@dataclass(frozen=True, slots=True)
class _Pool:
    """A GPU pool: how it may buy, and its GPU models in lower case; none where nothing names them."""

    at: Clustered
    buys: frozenset[str]
    models: frozenset[str]

    @property
    def name(self) -> str:
        """Its logical name, for messages."""
        return line(self.at.resource.name)

    def shares(self, other: _Pool) -> bool:
        """Whether both may have the same GPU model."""
        return not self.models or not other.models or bool(self.models & other.models)


@dataclass(frozen=True, slots=True)
class _Grade:
    """What keeps a pool from being a fallback of any spot pool, and what of that is unknown."""

    faults: tuple[tuple[str, str], ...]
    unread: Later

    @property
    def good(self) -> bool:
        """Whether nothing does, for sure."""
        return not (self.faults or self.unread)


def _check(stack: Stack, later: Later) -> Iterator[Violation]:
    limit = bound(stack.config, "maxFallback", MAX_FALLBACK)
    found = [_read(resource, later) for resource in stack.of(POOLS)]
    pools = [pool for pool in found if pool is not None]
    graded = {each.at.resource.urn: _graded(each, limit) for each in pools if each.buys - {SPOT}}
    told: set[tuple[str, str]] = set()
    outside = Later()
    for spot in pools:
        if spot.buys != {SPOT}:
            continue
        others = [each for each in pools if each.buys - {SPOT} and each.at.near(spot.at) and each.shares(spot)]
        grades = [graded[each.at.resource.urn] for each in others]
        if any(grade.good for grade in grades):
            continue
        unread = Later()
        for grade in grades:
            unread.join(grade.unread)
        later.join(unread)
        if unread:
            continue
        if others:
            said = f"as the fallback of spot pool {spot.name}"
            told |= {(f"{value}: {said} {rule}", others[0].at.resource.urn) for value, rule in grades[0].faults}
        elif spot.at.cluster in stack.existing:
            outside.note(unseen(spot.at.cluster, f"whether another pool of it has the GPU of {spot.name}"))
        elif not later:
            # Any pool of which something is unknown may be the one.
            yield _missing(spot), spot.at.resource.urn
    if not later:
        yield from sorted(told)
    outside.settle()


def _read(resource: PolicyResource, later: Later) -> _Pool | None:
    """What is known of a GPU pool; None for others, and where an unknown value decides."""
    unread, unsigned = Later(), Later()
    token, props = resource.resource_type, resource.props
    if not gpu_sign(token, props, unsigned):
        later.join(unsigned)
        return None
    with unread:
        pool = _Pool(Clustered(resource, cluster_of(resource)), bought(token, props), frozenset(_models(token, props, unread)))
        if not unread:
            return pool
    later.join(unread)
    return None


def _models(token: str, props: Any, later: Later) -> Iterator[str]:
    for choice in choices(token, props, later):
        if choice.machine is not None and choice.machine.gpu is not None:
            yield choice.machine.gpu.name.lower()
    if token != KARPENTER_NODE_POOL:
        return
    for _, key, operator, item in requirements(props, later):
        if operator == "In" and key in (_GPU_NAME, FAMILY_LABEL):
            for _, entry in entries(item, "values", later):
                yield from _of_family(text(entry)) if key == FAMILY_LABEL else (text(entry).lower(),)


def _of_family(family: str) -> Iterator[str]:
    return (each.gpu.name.lower() for each in machines("aws") if each.gpu is not None and each.name.startswith(f"{family}."))


def _graded(pool: _Pool, limit: int) -> _Grade:
    unread = Later()
    return _Grade(tuple(_faults(pool, limit, unread)), unread)


def _faults(fallback: _Pool, limit: int, later: Later) -> Iterator[tuple[str, str]]:
    """What keeps a pool from being a good fallback: what it says, and what it should."""
    if fallback.buys != {ON_DEMAND}:
        # Reserved capacity is paid already, and a pool that may buy spot too is no mere fallback.
        return
    resource = fallback.at.resource
    with later:
        if least(resource.resource_type, resource.props):
            field = ".".join(LEAST[resource.resource_type])
            value = walk(resource.props, *LEAST[resource.resource_type])
            yield f"{field} is {shown(value)}", "it keeps no node until one is needed; write 0"
    with later:
        path, value = most(resource.resource_type, resource.props, resource.opts)
        if value is None and resource.resource_type == KARPENTER_NODE_POOL:
            # A node has a GPU at least, so no more nodes than GPUs.
            path = _GPU_LIMIT
            value = walk(resource.props, *path)
        nodes = whole(value)
        if nodes is None or nodes > limit:
            allowed = f"{limit} node{'' if limit == 1 else 's'}"
            yield (
                f"{'.'.join(path)} is {shown(value)}",
                f"it has at most {allowed}; write {limit}, or raise {setting('maxFallback')}",
            )


def _missing(spot: _Pool) -> str:
    what = ", ".join(line(each.upper()) for each in sorted(spot.models)[:_NAMES]) or "GPUs of its launch template"
    return (
        f"spot pool {spot.name} ({what}) has no fallback in {named(spot.at.cluster)}: when spot runs out its jobs wait; add a "
        "pool of that GPU on demand, with a minimum of 0, and a runner set for it"
    )


RULE = StackRule(
    id="spot-with-fallback",
    order=(Section.COST, 20),
    title="Spot GPU pools have a fallback",
    severity=Severity.MEDIUM,
    types=POOLS | {OKE_CLUSTER},
    levels={"dev": "disabled", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    config={
        "maxFallback": schema.integer(
            MAX_FALLBACK, "How many nodes the on-demand fallback of a spot GPU pool may have at most.", maximum=1000
        )
    },
    rationale="Spot capacity of a GPU can be gone for hours; a small pool on demand lets what cannot wait go on.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html",
    fix="Beside each spot GPU pool, add one of the same GPU on demand, with a minimum of 0 and a small maximum.",
    check=_check,
)
