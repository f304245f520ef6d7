"""non-gpu-pool-no-gpu-taint: a pool without GPUs does not have the GPU taint.

Judged: EKS managed node groups, OKE node pools and Karpenter NodePools whose machines certainly have no GPU. If a launch template
chooses the type, or if a requirement also allows GPU machines, the rule reports nothing. OKE sets the taint only on GPU shapes;
other taints of its nodes are in the user data. The rule does not judge Talos nodes, because only GPU machines are resources.
"""

from functools import partial

from fleet.facts.scheduling import GPU_TAINT_KEY

from .kinds import KARPENTER_NODE_POOL, POOLS
from .pools import CATEGORY_LABEL, FAMILY_LABEL, INSTANCE_TYPE_LABEL, accelerated, choices, machine_sign, offers, taints
from .read import Data, Faults, Later, count, items, provided, shown, text, walk
from .rule import Args, Rule, facts, said


def _check(args: Args, later: Later) -> Faults:
    unsure = Later()
    why = _no_gpus(args.type, args.props, unsure)
    yield from provided(bool(why), unsure, partial(_faults, args, why), later)


def _faults(args: Args, why: str, later: Later) -> Faults:
    key = text(args.config.get("key"))
    for path, taint in taints(args.type, args.props, later):
        if text(later.walk(taint, "key")) == key:
            yield said("taint_without_gpu", path=path, key=key, why=why)


def _no_gpus(token: str, props: Data, later: Later) -> str:
    """Why no machine of the pool has a GPU; "" if one may have a GPU, or if an unknown value decides."""
    if token == KARPENTER_NODE_POOL:
        return _karpenter(props, later)
    unread = Later()
    types = tuple(choices(token, props, unread))
    if any(machine_sign(choice.name) for choice in types):
        # One GPU type is enough, even if other types are unknown.
        return ""
    if not (later.clear(unread) and types):
        return ""
    return f"{types[0].path.partition('[')[0]} {_named([choice.name for choice in types])}: no machine has a GPU"


def _karpenter(props: Data, later: Later) -> str:
    # Requirements are joined by AND, so one that allows only machines without GPUs is enough.
    for path, key, item in offers(props, (INSTANCE_TYPE_LABEL, FAMILY_LABEL, CATEGORY_LABEL), later):
        unread = Later()
        with unread:
            listed = walk(item, "values")
            names = [text(name) for _, name in items(listed, unread)]
            gpus = machine_sign if key == INSTANCE_TYPE_LABEL else accelerated
            if count(listed) and not unread and not any(map(gpus, names)):
                return f"{path}.values {_named(names)}: no machine has a GPU"
        later.join(unread)
    return ""


def _named(names: list[str]) -> str:
    return f"[{', '.join(map(shown, names[:3]))}{', …' if len(names) > 3 else ''}]"


RULE = Rule(**facts(__name__, key=GPU_TAINT_KEY), types=POOLS, check=_check)
