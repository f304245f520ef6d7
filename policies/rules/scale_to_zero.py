"""scale-to-zero: GPU pools keep no node, and runner sets of GPUs no runner, while there are no jobs.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools, Auto Scaling groups whose types are known, and ARC's
runner sets (the chart's values and the custom resource) whose runners take a GPU or boot a machine.

- The number that a pool starts with is no minimum: it may be left to the autoscaler (`ignoreChanges`). OKE has one number for
  both.
- Karpenter removes empty nodes by itself (its CRD's default for `consolidateAfter` is 0s) unless told `Never`; `replicas` are
  kept.
- A warm pool keeps machines for every node that the group may have, stopped or not (EC2 Auto Scaling, PutWarmPool).
- Reserved capacity is paid for whether used or not, so pools of it may keep nodes. Standing OCI machines are an instance pool,
  which is made to stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from fleet.hardware import RESERVED
from fleet.scheduling import MACHINE_SHAPES

from .capacity import bought
from .draft import Draft
from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, HELM, KARPENTER_NODE_POOL, POOLS, RUNNER_SET, is_scale_set
from .machine_types import ANNOTATIONS
from .pods import pod_specs, takes_gpus
from .pools import gpu_sign
from .read import Later, bound, keys, quantity, shown, text, true, walk, whole
from .rule import Rule
from .sizes import FIRST, LEAST, ignored

_WARM = {EKS_NODE_GROUP: "warmPoolConfig", AUTO_SCALING_GROUP: "warmPool"}
_MIN_RUNNERS = dict.fromkeys(HELM, ("values", "minRunners")) | dict.fromkeys(RUNNER_SET, ("spec", "minRunners"))
_SCALE_SETS = frozenset(_MIN_RUNNERS)
_CONSOLIDATE = ("spec", "disruption", "consolidateAfter")


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong at a path; `count` says that a smaller number mends it."""

    path: tuple[str, ...]
    message: str
    count: bool = True


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    later = Later()
    for fault in _faults(args, later):
        report(fault.message, None)
    later.settle()


def _faults(args: ResourceValidationArgs, later: Later) -> list[_Fault]:
    """The faults that are sure; unknown values that could hide one are put off."""
    hidden, unsigned = Later(), Later()
    faults = list(_kept(args, hidden))
    if not (faults or hidden):
        return []
    sign = _sign(args, unsigned)
    if not sign:
        later.join(unsigned)
        return []
    later.join(hidden)
    return [_Fault(fault.path, f"{fault.message} ({sign})", fault.count) for fault in faults]


def _sign(args: ResourceValidationArgs, later: Later) -> str:
    """Why what is kept costs GPUs that nobody uses; "" where it does not, or where nothing known says so."""
    if args.resource_type in _SCALE_SETS:
        return _runner_sign(args.resource_type, args.props, later)
    unsigned, unread = Later(), Later()
    sign = gpu_sign(args.resource_type, args.props, unsigned)
    if not (sign or unsigned):
        return ""
    with unread:
        if bought(args.resource_type, args.props) == {RESERVED}:
            return ""
    later.join(unread if unread else unsigned)
    return "" if unread else sign


def _runner_sign(token: str, props: Any, later: Later) -> str:
    with later:
        if token in HELM and not is_scale_set(props):
            return ""
        unread = Later()
        if any(takes_gpus(pod, unread) for pod in pod_specs(token, props, unread)):
            return "its runners take GPUs"
        if token in HELM and text(walk(props, *ANNOTATIONS, MACHINE_SHAPES)):
            return "its runners boot GPU machines"
        later.join(unread)
    return ""


def _kept(args: ResourceValidationArgs, later: Later) -> Iterator[_Fault]:
    token, props, config = args.resource_type, args.props, args.get_config()
    allowed = bound(config, "minAllowed", 0)
    if token in _MIN_RUNNERS:
        yield from _above(_MIN_RUNNERS[token], props, allowed, "runners wait for jobs, each on a GPU", later)
        return
    yield from _above(LEAST[token], props, allowed, "a GPU pool keeps no node without jobs", later)
    first = FIRST.get(token)
    if first is not None and not ignored(args.opts, first):
        yield from _above(first, props, allowed, "a GPU pool starts without nodes", later)
    if token in _WARM and not true(config.get("warmPool", False)):
        yield from _warm(_WARM[token], props, later)
    if token == KARPENTER_NODE_POOL:
        with later:
            if text(walk(props, *_CONSOLIDATE)) == "Never":
                yield _Fault(
                    _CONSOLIDATE,
                    f'{".".join(_CONSOLIDATE)} is "Never": nodes without jobs go away; write a time, for example 5m',
                    count=False,
                )


def _above(path: tuple[str, ...], props: Any, allowed: int, rule: str, later: Later) -> Iterator[_Fault]:
    with later:
        value = walk(props, *path)
        number = quantity(value)
        if number is not None and number > allowed:
            at_most = f"{allowed} or less" if allowed else "0"
            yield _Fault(path, f"{'.'.join(path)} is {shown(value)}: {rule}; write {at_most}")


def _warm(field: str, props: Any, later: Later) -> Iterator[_Fault]:
    with later:
        pool = walk(props, field)
        if not keys(pool):
            return
        prepared, least = walk(pool, "maxGroupPreparedCapacity"), walk(pool, "minSize")
        if whole(prepared) != 0 or whole(least):
            yield _Fault(
                (field,), f"{field} is set: it keeps machines for nodes that nobody asked for; take it away", count=False
            )


def _mend(args: ResourceValidationArgs, draft: Draft) -> None:
    """Lowers the numbers that are too great to what is allowed; what is no number is for its owner."""
    allowed = whole(args.get_config().get("minAllowed", 0)) or 0
    later = Later()
    for fault in _faults(args, later):
        if fault.count:
            draft.put(allowed, *fault.path)


RULE = Rule(
    id="scale-to-zero",
    title="GPU pools go down to no nodes",
    severity=Severity.MEDIUM,
    types=POOLS | {AUTO_SCALING_GROUP} | HELM | RUNNER_SET,
    levels={"dev": "remediate", "staging": "mandatory", "prod": "advisory", "homelab": "disabled"},
    config={
        "minAllowed": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100,
            "default": 0,
            "description": "How many nodes a GPU pool, and how many runners a set of GPU runners, may keep without jobs.",
        },
        "warmPool": {
            "type": "boolean",
            "default": False,
            "description": "Whether a GPU pool on AWS may have a warm pool.",
        },
    },
    rationale="A GPU node that waits for jobs costs what it costs at work, and most hours of a week have no jobs.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html",
    fix="EKS: scalingConfig minSize, desiredSize 0. OKE: nodeConfigDetails.size 0. ARC: minRunners 0. Karpenter: no Never.",
    check=_check,
    remedy=_mend,
)
