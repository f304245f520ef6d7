"""gpu-node-taint: every GPU pool has the GPU taint, so that only pods that ask for a GPU start its nodes.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools, Talos nodes, objects of nodes. Components of `eks` are not
judged, because their node group is a separate resource. Self-managed groups set taints in user data, which the rule does not
read. If only the launch template has a group's machine type, the rule recognizes a GPU pool by its AMI type and labels;
`stack-gpu-ceiling` still counts its machines. OCI machines that run one job each (instance configurations, and the machines that
a launcher boots) join no cluster, so no pod can start or keep one.

A Talos node's taints are a map from key to `value:effect`, or to `effect` alone. The rule does not remediate them: the
component's inputs only repeat the machine config and do not change it.

The kubelet writes the object of a node, Karpenter its claim, and the scheduler the binding of a pod to it. One that a manifest or
a program writes goes past the taints and labels of pools, so the rule refuses each, but for a patch that only cordons a node.
"""

from collections.abc import Callable, Mapping

from fleet.facts.record import Record
from fleet.facts.scheduling import EKS_EFFECT, GPU_TAINT_KEY, OKE_PROFILE, Effect

from .draft import Draft
from .kinds import EKS_NODE_GROUP, KARPENTER_NODE_POOL, NODE_OBJECTS, NODE_PATCH, NODES, OKE_NODE_POOL, TALOS_NODE
from .pools import gpu_sign
from .read import Data, Faults, Later, entries, keys, line, shown, text, walk
from .rule import Args, Rule, facts, said, setting

_KEEPS_OFF = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
_KUBERNETES_EFFECT = {effect: effect.value for effect in Effect}
_TALOS_TAINT = f'"true:{Effect.NO_SCHEDULE}"'


class _Dialect(Record):
    """Where a kind keeps its taints, and how it spells effects. It rejects the spelling in `foreign`."""

    owner: str
    path: tuple[str, ...]
    effects: Mapping[Effect, str]
    foreign: Mapping[Effect, str]


_DIALECTS = {
    EKS_NODE_GROUP: _Dialect("EKS", ("taints",), EKS_EFFECT, _KUBERNETES_EFFECT),
    KARPENTER_NODE_POOL: _Dialect("Karpenter", ("spec", "template", "spec", "taints"), _KUBERNETES_EFFECT, EKS_EFFECT),
}


def _check(args: Args, later: Later) -> Faults:
    key = text(args.config.get("key"))
    if args.type in _SPECIAL:
        yield from _SPECIAL[args.type](args.props, key, later)
        return
    dialect = _DIALECTS[args.type]
    hidden, unsigned = Later(), Later()
    keeps_off, misspelt, weak = _read(args.props, dialect, key, hidden)
    if keeps_off and not (misspelt or hidden):
        return
    if not (sign := gpu_sign(args.type, args.props, unsigned)):
        later.join(unsigned)
        return
    yield from misspelt
    # An unknown taint may be the missing one, or a misspelt one.
    hidden.settle()
    if keeps_off:
        return
    yield from weak
    if not (misspelt or weak):
        hard = [dialect.effects[effect] for effect in _KEEPS_OFF]
        yield said("no_gpu_taint", path=".".join(dialect.path), sign=sign, key=key, any_effect=" or ".join(hard), effects=hard)


def _read(props: Data, dialect: _Dialect, key: str, later: Later) -> tuple[bool, list[str], list[str]]:
    """Whether a taint with the key keeps pods off, and messages about misspelt and about weak ones."""
    keeps_off, misspelt, weak = False, list[str](), list[str]()
    hard = [dialect.effects[effect] for effect in _KEEPS_OFF]
    native = {foreign: dialect.effects[effect] for effect, foreign in dialect.foreign.items()}
    for path, taint in entries(props, ".".join(dialect.path), later):
        with later:
            if text(walk(taint, "key")) != key:
                continue
            effect = walk(taint, "effect")
            place = f"{path}.effect is {shown(effect)}"
            if text(effect) in hard:
                keeps_off = True
            elif text(effect) in native:
                misspelt.append(f"{place}: {dialect.owner} spells it {native[text(effect)]}; write that")
            else:
                weak.append(f"{place}: only {' and '.join(hard)} keep pods off GPU nodes; write {hard[0]}")
    return keeps_off, misspelt, weak


def _remediate(args: Args, draft: Draft) -> None:
    """Adds the missing taint and changes no other: a weak taint does no harm, and the owner has to fix a misspelt one."""
    if args.type in _SPECIAL:
        return
    key = text(args.config.get("key"))
    dialect = _DIALECTS[args.type]
    hidden = Later()
    keeps_off, misspelt, _ = _read(args.props, dialect, key, hidden)
    if keeps_off or misspelt or hidden or not gpu_sign(args.type, args.props, Later()):
        return
    draft.append({"key": key, "value": "true", "effect": dialect.effects[Effect.NO_SCHEDULE]}, *dialect.path)


def _check_oke(props: Data, key: str, later: Later) -> Faults:
    """OKE pools have no taints to set. OKE taints GPU nodes itself, so the config must ask for OKE's taint."""
    if (taint := OKE_PROFILE.gpu_taint).key != key and (sign := gpu_sign(OKE_NODE_POOL, props, later)):
        yield f"{sign}: OKE taints GPU nodes itself, with {taint} and not {line(key)}; set {setting('key')} to OKE's key"


def _check_talos(props: Data, key: str, _: Later) -> Faults:
    """Every Talos node is a GPU machine, so it needs the taint. Its type changes only the text of the message."""
    taint = walk(props, "nodeTaints", key)
    written = text(taint)
    if written.partition(":")[2] in _KEEPS_OFF or written in _KEEPS_OFF:
        return
    if taint is None:
        sign, hard = gpu_sign(TALOS_NODE, props, Later()), " or ".join(_KEEPS_OFF)
        yield said("no_talos_taint", sign=sign, key=key, hard=hard, value=_TALOS_TAINT)
    else:
        yield said("weak_talos_taint", key=key, taint=taint, hard=" and ".join(_KEEPS_OFF), value=_TALOS_TAINT)


def _check_object(_: Data, __: str, ___: Later) -> Faults:
    """The object of a node."""
    yield said("node_object")


def _check_patch(props: Data, key: str, later: Later) -> Faults:
    """A patch of it, which may cordon a node."""
    spec, labels = walk(props, "spec"), walk(props, "metadata", "labels")
    if keys(labels) or keys(spec) != ("unschedulable",) or walk(spec, "unschedulable") is not True:
        yield from _check_object(props, key, later)


_SPECIAL: Mapping[str, Callable[[Data, str, Later], Faults]] = {
    OKE_NODE_POOL: _check_oke,
    TALOS_NODE: _check_talos,
    **dict.fromkeys(NODE_OBJECTS, _check_object),
    NODE_PATCH: _check_patch,
}
"""Kinds without a list of taints."""

RULE = Rule(**facts(__name__, key=GPU_TAINT_KEY), types=NODES | NODE_OBJECTS, check=_check, remedy=_remediate)
