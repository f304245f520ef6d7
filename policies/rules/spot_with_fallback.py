"""spot-with-fallback: if spot runs out, another pool with the same GPU can run the jobs.

Judged: EKS managed node groups, OKE node pools and Karpenter NodePools, by cluster. A spot GPU pool needs a *fallback*: another
pool with the same GPU model that does not buy spot. A runner set names one pool, so the fallback has its own runner set, like a
release pool. A fallback is small, and keeps no node while it is not needed. A pool of reserved capacity may be a fallback at any
size, because it costs the same when it is not used. A pool that may buy both (by a Karpenter requirement, or an OKE placement
without preemption) is its own fallback. On-demand base capacity of a spot group does not count as a fallback.
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
from .node_groups import pooled
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
    """A GPU pool: the capacity that it may buy, and its GPU models in lower case, empty if no property names them."""

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
    """The reasons why a pool cannot be a fallback of any spot pool, and the unknown values among them."""

    faults: tuple[tuple[str, str], ...]
    unread: Later

    @property
    def good(self) -> bool:
        """Whether there is certainly no reason."""
        return not (self.faults or self.unread)


def _check(stack: Stack, later: Later) -> Iterator[Violation]:
    limit = bound(stack.config, "maxFallback", MAX_FALLBACK)
    found = [_read(resource, later) for resource in pooled(stack.of(POOLS))]
    pools = [pool for pool in found if pool is not None]
    graded = {each.at.resource.urn: _graded(each, limit) for each in pools if each.buys - {SPOT}}
    reported: set[tuple[str, str]] = set()
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
            subject = f"as the fallback of spot pool {spot.name}"
            reported |= {(f"{value}: {subject} {rule}", others[0].at.resource.urn) for value, rule in grades[0].faults}
        elif spot.at.cluster in stack.existing:
            outside.note(unseen(spot.at.cluster, f"whether another pool of it has the GPU of {spot.name}"))
        elif not later:
            # A pool with an unknown value may be the fallback.
            yield _missing(spot), spot.at.resource.urn
    if not later:
        yield from sorted(reported)
    outside.settle()


def _read(resource: PolicyResource, later: Later) -> _Pool | None:
    """The GPU pool; None for other pools, and if an unknown value decides."""
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
    """The reasons why a pool is not a good fallback: the value, and the rule with the fix."""
    if fallback.buys != {ON_DEMAND}:
        # Reserved capacity costs nothing more, and a pool that may also buy spot is not only a fallback.
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
            # Every node has at least one GPU, so the GPU limit also limits the nodes.
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
        f"spot pool {spot.name} ({what}) has no fallback in {named(spot.at.cluster)}: its jobs wait if spot runs out; add an "
        "on-demand pool with that GPU, with a minimum of 0, and a runner set for it"
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
            MAX_FALLBACK, "The most nodes that the on-demand fallback of a spot GPU pool may have.", maximum=1000
        )
    },
    rationale="Spot capacity of a GPU can run out for hours. A small on-demand pool runs the jobs that cannot wait.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html",
    fix="For each spot GPU pool, add an on-demand pool with the same GPU, a minimum of 0 and a small maximum.",
    check=_check,
)
