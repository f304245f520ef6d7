"""gpu-pool-max-size: every GPU pool has a maximum number of GPUs, no higher than the agreed limit.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools, Auto Scaling groups that name GPU types, and the runner
sets of launchers. Such a runner set counts with `maxRunners` machines of its shape. A schedule of an Auto Scaling group keeps
below the maximum of its pool: the action of a schedule replaces that maximum (EC2 API reference, PutScheduledUpdateGroupAction).

- A node counts with the GPUs of the pool's largest type. A pool on EKS has a node group per zone, and the rule adds their
  maximums.
- OKE's autoscaler has a pool's maximum in an argument that contains the pool's OCID, so a preview does not know it. The pool's
  tag `gpu-ci/max-nodes` has the same maximum. If the program sets a pool's size, the pool has exactly that size.
- Karpenter checks its limits before it buys, so a burst may exceed them by a node or two (karpenter.sh, spec.limits). Only a
  quota of the account is a hard limit.

No other kind of Karpenter, and no other API version, may buy machines: nothing judges its maximum. The annotations of a launcher
say which machines it boots. This rule does not count standing machines (instance pools); `stack-gpu-ceiling` does.
"""

from collections.abc import Callable, Iterator
from functools import partial

from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, HELM, KARPENTER_NODE_POOL, POOLS
from .pools import OKE_MOST, Choice, booted, choices, gpus_each, most, of_gpu_pool
from .read import Faults, Later, UndeterminableError, bound, gpus, line, shown, walk, whole
from .releases import Release, releases
from .rule import Args, Resource, Stack, StackRule, Violations, each, facts, said, setting

SCHEDULE = "aws:autoscaling/schedule:Schedule"
_LIMIT = ("spec", "limits", GPU_RESOURCE)

Types = Callable[[Later], Iterator[Choice]]
"""Reads the machine types of a pool or a set."""


def _buys_machines(token: str) -> bool:
    """Whether this is a kind of Karpenter that no rule reads."""
    return token.startswith("kubernetes:karpenter.sh/") and token != KARPENTER_NODE_POOL


def _check(stack: Stack, later: Later) -> Violations:
    yield from each(_pool)(stack, later)
    for action in stack.of(SCHEDULE):
        with later:
            yield from ((fault, action.urn) for fault in _scheduled(action, bound(stack.config, "maxGpusPerPool"), later))


def _scheduled(action: Resource, cap: int, later: Later) -> Faults:
    sources = action.property_dependencies.get("autoscalingGroupName", ())
    pools = [one for one in sources if one.type in (EKS_NODE_GROUP, AUTO_SCALING_GROUP)]
    allowed = max((whole(most(pool.type, pool.props, pool.opts)[1]) or 0 for pool in pools), default=cap)
    for key in ("minSize", "maxSize", "desiredCapacity"):
        if (nodes := whole(walk(action.props, key)) or 0) > allowed and pools:
            yield said("scheduled_nodes", key=key, nodes=nodes, pool=pools[0], allowed=allowed)
        elif nodes > allowed:
            later.note(UndeterminableError(f"{key} is {nodes}, and nothing in the stack shows the pool of this schedule"))


def _pool(args: Args, later: Later) -> Faults:
    if _buys_machines(args.type):
        yield said("unbounded_kind", given=args.type.split(":", 1)[1], kind=KARPENTER_NODE_POOL.split(":")[1])
        return
    for release in releases(args.type, args.props, later):
        yield from _machine_set(release, bound(args.config, "maxGpusPerMachineSet"), later)
    if args.type not in HELM | {SCHEDULE}:
        cap = bound(args.config, "maxGpusPerPool")
        read = _karpenter if args.type == KARPENTER_NODE_POOL else _nodes
        yield from of_gpu_pool(args.type, args.props, lambda unsure: read(args, cap, unsure), later)


def _nodes(args: Args, cap: int, later: Later) -> Faults:
    with later:
        path, value = most(args.type, args.props, args.opts)
        name = _shown_path(path)
        if (nodes := whole(value)) is None:
            fix = "the maximum that the autoscaler uses" if path == OKE_MOST else "a whole number"
            yield f"{name} is {shown(value)}: a GPU pool needs a maximum number of nodes; write {fix}"
            return
        yield from _counted(name, nodes, cap, partial(choices, args.type, args.props), "maxGpusPerPool", later)


def _karpenter(args: Args, cap: int, later: Later) -> Faults:
    with later:
        if (limit := walk(args.props, *_LIMIT)) is not None:
            if (gpus := quantity(limit)) is None or gpus > cap:
                yield said("large_pool", path=_shown_path(_LIMIT), limit=limit, cap=cap)
            return
        path, value = most(args.type, args.props, args.opts)
        if (nodes := whole(value)) is None:
            path = ("spec", "replicas")
            nodes = whole(walk(args.props, *path))
        if nodes is None:
            yield f"{_shown_path(_LIMIT)} is not set: Karpenter then buys GPUs without a limit; write {cap} or less"
        else:
            yield from _counted(_shown_path(path), nodes, cap, partial(choices, args.type, args.props), "maxGpusPerPool", later)


def _machine_set(release: Release, cap: int, later: Later) -> Faults:
    with later:
        unread = Later()
        if not tuple(booted(release, unread)):
            later.join(unread)
            return
        value, name = walk(release.values, "maxRunners"), f"{release.values_path}.maxRunners"
        if (runners := whole(value)) is None:
            yield f"{name} is {shown(value)}: ARC then boots a GPU machine for every job; write a whole number"
        else:
            yield from _counted(name, runners, cap, partial(booted, release), "maxGpusPerMachineSet", later)


def _counted(name: str, machines: int, cap: int, read: Types, ceiling: str, later: Later) -> Faults:
    """The fault if this number of machines of these types exceeds the limit."""
    unread = Later()
    types = tuple(read(unread))
    counts = [1 if choice.gpus is None else choice.gpus for choice in types]
    # If only the launch template has the type, each node of a GPU pool has at least one GPU.
    least = max(counts, default=0 if unread else 1)
    if machines * least > cap:
        fix = f"write {cap // least} or less" if cap >= least else "take a smaller type"
        unit = gpus(least) if types else "1 GPU or more"
        yield f"{name} is {machines}: {machines} times {unit} is more than {gpus(cap)}; {fix}, or raise {setting(ceiling)}"
        return
    if later.clear(unread) and machines and gpus_each(types) is None:
        unlisted = next((choice for choice in types if choice.gpus is None), None)
        yield said("no_machine_type") if unlisted is None else said("unlisted_type", unlisted=unlisted)


def _shown_path(path: tuple[str, ...]) -> str:
    head, last = ".".join(path[:-1]), path[-1]
    return f"{head}[{line(last)}]" if "/" in last else f"{head}.{last}" if head else last


RULE = StackRule(**facts(__name__), types=POOLS | {AUTO_SCALING_GROUP, SCHEDULE} | HELM, others=_buys_machines, check=_check)
