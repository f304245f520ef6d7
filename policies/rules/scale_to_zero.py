"""scale-to-zero: without jobs, GPU pools keep no nodes and GPU runner sets keep no runners.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools, and Auto Scaling groups whose types are known. Also ARC's
runner sets (the chart's values and the custom resource) whose runners take a GPU or boot a machine.

- The initial size of a pool is not a minimum: the program may leave it to the autoscaler (`ignoreChanges`). GpuNodeGroup starts a
  group with its minimum and later repeats the size that AWS reports, so its groups are not judged by it. OKE has one number for
  both. The tag gpu-ci/leaving says that it is neither.
- Karpenter removes empty nodes by itself (its CRD's default for `consolidateAfter` is 0s) unless that is `Never`. It keeps
  nodes of `replicas`.
- The rule judges each EKS node group by itself, so that the remediation can lower it: `minAllowed` is per group, and a pool has
  one group per zone.
- A warm pool keeps machines for every node that the group may have, stopped or not (EC2 Auto Scaling, PutWarmPool).
- Schedules of a pool may keep nodes in their windows: their end is certain, and the cost ceilings count them.
- Reserved capacity costs the same when it is not used, so such pools may keep nodes. Standing OCI machines are an instance
  pool, which always keeps its machines, and the rule does not judge it.
"""

from collections.abc import Callable, Iterator
from functools import partial

from fleet.facts.hardware import PREPAID
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import MACHINE_SHAPES

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, HELM, KARPENTER_NODE_POOL, POOLS, RUNNER_SET
from .pods import pod_specs, pods_of, takes_gpus
from .pools import ANNOTATIONS, FIRST, LEAST, OKE_LEAVING, bought, gpu_sign, ignored
from .read import Data, Later, bound, keys, provided, shown, text, true, walk, whole
from .releases import Release, releases
from .rule import Args, Mendable, Rule, facts, mending, said

_WARM = {EKS_NODE_GROUP: "warmPoolConfig", AUTO_SCALING_GROUP: "warmPool"}
_OURS = "gpu-ci:index:GpuNodeGroup$"
"""The type of a resource that GpuNodeGroup creates begins with it in the URN."""
_MIN_RUNNERS = ("minRunners",)
_WAITING, _TAKES = "runners wait for jobs, each on a GPU", "its runners take GPUs"


def _faults(args: Args, later: Later) -> list[Mendable]:
    """The certain faults. `later` collects unknown values that could hide one. A remedy lowers numbers that are too large."""
    if args.type not in HELM:
        return _sure(partial(_kept, args), partial(_sign, args), later)
    allowed = bound(args.config, "minAllowed")
    return [
        fault
        for release in releases(args.type, args.props, later)
        for fault in _sure(partial(_waiting_runners, release, allowed), partial(_release_sign, release), later)
    ]


def _sure(find: Callable[[Later], Iterator[Mendable]], why: Callable[[Later], str], later: Later) -> list[Mendable]:
    """The faults that `find` gives, if `why` gives a reason why they cost GPUs."""
    unsigned = Later()
    sign = why(unsigned)
    return [(f"{message} ({sign})", fixes) for message, fixes in provided(bool(sign), unsigned, find, later)]


def _sign(args: Args, later: Later) -> str:
    """Why nodes or runners without jobs cost GPUs; "" if they do not, or if no known value shows it."""
    if args.type in RUNNER_SET:
        unread = Later()
        if any(takes_gpus(pod, unread) for pod in pod_specs(args.type, args.props, unread)):
            return _TAKES
        later.join(unread)
        return ""
    unsigned, unread = Later(), Later()
    if not ((sign := gpu_sign(args.type, args.props, unsigned)) or unsigned):
        return ""
    with unread:
        if set() < bought(args.type, args.props) <= PREPAID:
            return ""
    later.join(unread if unread else unsigned)
    return "" if unread else sign


def _release_sign(release: Release, later: Later) -> str:
    with later:
        if not release.is_scale_set:
            return ""
        unread = Later()
        if any(takes_gpus(pod, unread) for pod in pods_of(release, unread)):
            return _TAKES
        if text(walk(release.values, *ANNOTATIONS, MACHINE_SHAPES)):
            return "its runners boot GPU machines"
        later.join(unread)
    return ""


def _kept(args: Args, later: Later) -> Iterator[Mendable]:
    token, props, config = args.type, args.props, args.config
    allowed = bound(config, "minAllowed")
    if token in RUNNER_SET:
        yield from _above(("spec", *_MIN_RUNNERS), props, allowed, _WAITING, later)
        return
    if later.walk(props, *OKE_LEAVING) is None:
        yield from _above(LEAST[token], props, allowed, "a GPU pool keeps no node without jobs", later)
    if (first := FIRST.get(token)) is not None and not ignored(args.opts, first) and _OURS not in args.urn:
        yield from _above(first, props, allowed, "a GPU pool starts without nodes", later)
    if token in _WARM and not true(config.get("warmPool")):
        yield from _warm(_WARM[token], props, later)
    if token == KARPENTER_NODE_POOL:
        path = ("spec", "disruption", "consolidateAfter")
        if text(later.walk(props, *path)) == "Never":
            yield f'{".".join(path)} is "Never": Karpenter must remove idle nodes; write a time, for example 5m', {}


def _waiting_runners(release: Release, allowed: int, later: Later) -> Iterator[Mendable]:
    with later:
        for message, _ in _above(_MIN_RUNNERS, release.values, allowed, _WAITING, later):
            # Remediations leave an Application alone, because its values may be text.
            fixes = {("values", *_MIN_RUNNERS): allowed} if release.application is None else {}
            yield f"{release.values_path}.{message}", fixes


def _above(path: tuple[str, ...], props: Data, allowed: int, rule: str, later: Later) -> Iterator[Mendable]:
    value = later.walk(props, *path)
    if (number := quantity(value)) is not None and number > allowed:
        yield f"{'.'.join(path)} is {shown(value)}: {rule}; write {f'{allowed} or less' if allowed else 0}", {path: allowed}


def _warm(field: str, props: Data, later: Later) -> Iterator[Mendable]:
    with later:
        if not keys(pool := walk(props, field)):
            return
        prepared, least = walk(pool, "maxGroupPreparedCapacity"), walk(pool, "minSize")
        if whole(prepared) != 0 or whole(least):
            yield said("warm_pool", field=field), {}


RULE = Rule(**facts(__name__), types=POOLS | {AUTO_SCALING_GROUP} | HELM | RUNNER_SET, **mending(_faults))
