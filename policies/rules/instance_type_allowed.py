"""instance-type-allowed: machines have only allowed types.

Judged: all resources that buy machines of AWS and OCI, with or without GPU: node pools, Auto Scaling groups, fleets, launch
templates, instances, instance configurations, Karpenter NodePools, and the shapes of launchers. An entry is a whole name, or
has * for any characters: `g5.*` is every size of g5, but not of g5g. A resource that leaves the type open is a violation: a
Karpenter pool without a list of types, or instance requirements without `allowedInstanceTypes`, and a cluster in Auto Mode.
"""

from fnmatch import fnmatchcase
from functools import lru_cache

from .kinds import AUTO_SCALING_GROUP, EC2_FLEET, EKS_CLUSTER, EKS_COMPONENT, HELM, KARPENTER_NODE_POOL, LAUNCH_TEMPLATE, bodies
from .pools import FAMILY_LABEL, INSTANCE_TYPE_LABEL, MACHINE_KINDS, choices, offers
from .read import Data, Faults, Found, Later, count, items, keys, line, shown, strings, text, true, walk
from .rule import Args, Rule, entry, facts, said

CHOOSING = {EKS_CLUSTER: ("computeConfig", "enabled"), EKS_COMPONENT: ("autoMode", "enabled")}
"""Where EKS Auto Mode is on, which chooses and starts machines by itself."""
_ALLOWED_TYPES = "allowedInstanceTypes"


def _check(args: Args, later: Later) -> Faults:
    if args.type in CHOOSING:
        if true(walk(args.props, *CHOOSING[args.type])):
            yield f"{'.'.join(CHOOSING[args.type])} is true: EKS then starts machines that no list bounds; write false"
        if args.type == EKS_COMPONENT and not true(walk(args.props, "skipDefaultNodeGroup")):
            yield "skipDefaultNodeGroup is not true: the component then makes nodes of its own; write true"
        return
    allowed = (*strings(args.config, "types"), *strings(args.config, "extraTypes"))
    if args.type == KARPENTER_NODE_POOL:
        yield from _karpenter(args.props, allowed, later)
        return
    for choice in choices(args.type, args.props, later):
        if not allows(allowed, choice.name):
            yield f"{choice.path}: {_refused(choice.name, allowed)}"
    for path, attributes in _by_attributes(args.type, args.props, later):
        with later:
            if not count(names := walk(attributes, _ALLOWED_TYPES)):
                yield f"{path}.{_ALLOWED_TYPES} is not set: attributes alone allow every type; write {_listed(allowed)}"
            for index, item in items(names, later):
                # EC2 accepts a * in these names too. An allowed entry must then cover every type that the name matches.
                if not allows(allowed, text(item)):
                    yield f"{path}.{_ALLOWED_TYPES}[{index}]: {_refused(item, allowed)}"


def _by_attributes(token: str, props: Data, later: Later) -> Found:
    """Path and body of each block of instance requirements."""
    for prefix, body in bodies(token, props, later) if token in (LAUNCH_TEMPLATE, AUTO_SCALING_GROUP, EC2_FLEET) else ():
        if keys(attributes := later.walk(body, "instanceRequirements")):
            yield f"{prefix}instanceRequirements", attributes


def _karpenter(props: Data, allowed: tuple[str, ...], later: Later) -> Faults:
    # Requirements are joined by AND, so one with only allowed types is enough.
    hidden = Later()
    faults: list[str] = []
    for path, key, item in offers(props, (INSTANCE_TYPE_LABEL, FAMILY_LABEL), hidden):
        unread = Later()
        bad = []
        with unread:
            names = walk(item, "values")
            for index, entry in items(names, unread):
                # A family is allowed if all its sizes are.
                name = text(entry) if key == INSTANCE_TYPE_LABEL else f"{text(entry)}.*"
                if not allows(allowed, name):
                    bad.append(f"{path}.values[{index}]: {_refused(name, allowed)}")
            if count(names) and not (bad or unread):
                return
        hidden.join(unread)
        faults += bad
    # An unknown requirement may restrict the pool to allowed types.
    if not later.clear(hidden):
        return
    yield from faults or (said("any_type", label=INSTANCE_TYPE_LABEL, allowed=_listed(allowed)),)


@lru_cache(maxsize=4096)
def allows(allowed: tuple[str, ...], name: str) -> bool:
    """Whether one of the entries allows a type."""
    return any(fnmatchcase(name, entry) for entry in allowed)


def _refused(name: Data, allowed: tuple[str, ...]) -> str:
    return f"{shown(name)} is not an allowed type; use one of {_listed(allowed)}, or {entry('extraTypes', line(text(name)))}"


def _listed(allowed: tuple[str, ...]) -> str:
    shown_ones = [entry for entry in allowed if entry.isprintable() and len(entry) <= 40][:8]
    return ", ".join(shown_ones) + (", …" if len(allowed) > len(shown_ones) else "")


RULE = Rule(**facts(__name__), types=MACHINE_KINDS | HELM | {*CHOOSING}, check=_check)
