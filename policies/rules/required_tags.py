"""required-tags: what costs money says whose it is, what it is for and when it may go.

Judged: AWS resources by `tags` and their provider's `defaultTags`; Auto Scaling groups by tags that are propagated; launch
templates also by `tagSpecifications`, for default tags do not reach what a template launches; OCI resources by `freeformTags` or,
in any namespace, `definedTags`; namespaces of Kubernetes by labels, where a stack asks for some. A tag counts when it has a
value.

The remedy adds the tags for which the config has a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from . import kinds, schema
from .draft import Draft, Step
from .places import stack_file
from .read import Later, items, keys, label, strings, text, true, walk
from .rule import Args, Rule, Section, Severity

REQUIRED = ("owner", "cost-center", "stack", "ttl")

NAMESPACE = "kubernetes:core/v1:Namespace"
AWS = frozenset(
    (
        kinds.AWS_SUBNET,
        kinds.EC2_INSTANCE,
        kinds.EKS_CLUSTER,
        kinds.EKS_COMPONENT,
        kinds.EKS_NODE_GROUP,
        kinds.IAM_ROLE,
        kinds.LAUNCH_TEMPLATE,
        kinds.SECURITY_GROUP,
        "aws:budgets/budget:Budget",
        "aws:ebs/volume:Volume",
        "aws:ec2/capacityReservation:CapacityReservation",
        "aws:ec2/eip:Eip",
        kinds.EC2_FLEET,
        "aws:ec2/internetGateway:InternetGateway",
        "aws:ec2/natGateway:NatGateway",
        "aws:ec2/routeTable:RouteTable",
        "aws:ec2/vpc:Vpc",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "aws:ecr/repository:Repository",
        "aws:efs/fileSystem:FileSystem",
        kinds.EKS_ADDON,
        "aws:kms/key:Key",
    )
)
OCI = frozenset(
    (
        kinds.OCI_SUBNET,
        kinds.OKE_CLUSTER,
        kinds.OKE_NODE_POOL,
        kinds.OCI_INSTANCE_CONFIGURATION,
        kinds.OCI_INSTANCE,
        "oci:Budget/budget:Budget",
        "oci:Core/computeCapacityReservation:ComputeCapacityReservation",
        "oci:Core/instancePool:InstancePool",
        "oci:Core/internetGateway:InternetGateway",
        "oci:Core/natGateway:NatGateway",
        "oci:Core/networkSecurityGroup:NetworkSecurityGroup",
        "oci:Core/routeTable:RouteTable",
        "oci:Core/serviceGateway:ServiceGateway",
        "oci:Core/vcn:Vcn",
        "oci:Core/volume:Volume",
        "oci:FileStorage/fileSystem:FileSystem",
        "oci:FileStorage/mountTarget:MountTarget",
        "oci:Identity/policy:Policy",
        "oci:Kms/key:Key",
        "oci:Kms/vault:Vault",
    )
)
# Parts of what a template launches that cost money; a template without a specification of one launches it bare.
_LAUNCHED = ("instance", "volume")
_LABELS = "metadata.labels"
_OWN = ("tags", "freeformTags")


def _check(args: Args, later: Later) -> Iterator[str]:
    own: list[str] = []
    for path, missing in _missing(args, later):
        names = ", ".join(missing)
        if path == _LABELS:
            yield f"Missing required labels: {names}. Add them to {path}."
        elif path in _OWN:
            own = missing
            yield f"Missing required tags: {names}. Set gpu-ci:tags in {stack_file()}."
        elif missing != own:
            # What a launch template lacks itself is not reported again for what it launches.
            yield f"Missing required tags in {path}: {names}. Set gpu-ci:tags in {stack_file()}."


def _mend(args: Args, draft: Draft) -> None:
    values = args.get_config().get("values")
    for path, missing in _missing(args, Later()):
        steps = _STEPS.get(path, ())
        for name in missing:
            value = text(walk(values, name))
            if steps and value:
                draft.put(value, *steps, name)


def _missing(args: Args, later: Later) -> Iterator[tuple[str, list[str]]]:
    """Where tags are missing, and which."""
    config = args.get_config()
    token, props = args.resource_type, args.props
    if token == NAMESPACE:
        yield from _lacking(_LABELS, _names(config, "labels"), (("metadata", "labels"),), props, later)
        return
    wanted = _names(config, "tags", REQUIRED)
    if kinds.is_hollow(token, props):
        return
    if token in OCI:
        yield from _oci(props, wanted, later)
    elif token == kinds.AUTO_SCALING_GROUP:
        yield from _group(props, wanted, later)
    else:
        unread = Later()
        defaults = _default_tags(args.provider.props, unread) if args.provider is not None else frozenset[str]()
        own = [name for name in wanted if name not in defaults]
        found = list(_lacking("tags", own, (("tags",),), props, later))
        # What the provider adds may be just what is missing.
        yield from () if unread else found
        later.join(unread if found else Later())
        if token == kinds.LAUNCH_TEMPLATE:
            yield from _specifications(props, wanted, later)


def _names(config: Mapping[str, Any], setting: str, default: Sequence[str] = ()) -> list[str]:
    return [name for name in strings(config, setting, default) if name]


def _lacking(
    told: str, wanted: Iterable[str], places: tuple[tuple[str, ...], ...], holder: Any, later: Later
) -> Iterator[tuple[str, list[str]]]:
    """Names that are in none of the places. One that is unknown may be there."""
    missing, unread = [], Later()
    for name in wanted:
        unknown = Later()
        found = False
        for place in places:
            with unknown:
                found = found or bool(label(walk(walk(holder, *place), name)))
        if not found and not unknown:
            missing.append(name)
        if not found:
            unread.join(unknown)
    if missing:
        yield told, missing
    later.join(unread)


def _oci(props: Any, wanted: list[str], later: Later) -> Iterator[tuple[str, list[str]]]:
    # Defined tags are "namespace.key".
    unread = Later()
    defined: set[str] = set()
    with unread:
        tags = walk(props, "definedTags")
        for key in keys(tags):
            with unread:
                if label(walk(tags, key)):
                    defined.add(key.rpartition(".")[2])
    found = list(_lacking("freeformTags", [name for name in wanted if name not in defined], (("freeformTags",),), props, later))
    if unread and found:
        later.join(unread)
        return
    yield from found


def _group(props: Any, wanted: list[str], later: Later) -> Iterator[tuple[str, list[str]]]:
    unread = Later()
    reaching: set[str] = set()
    with unread:
        for _, tag in items(walk(props, "tags"), unread):
            with unread:
                if true(walk(tag, "propagateAtLaunch")) and label(walk(tag, "value")):
                    reaching.add(text(walk(tag, "key")))
    missing = [name for name in wanted if name not in reaching]
    if missing and not unread:
        yield "tags (with propagateAtLaunch)", missing
    if missing:
        later.join(unread)


def _specifications(props: Any, wanted: list[str], later: Later) -> Iterator[tuple[str, list[str]]]:
    unread = Later()
    tagged: dict[str, list[str]] = {}
    with unread:
        for _, specification in items(walk(props, "tagSpecifications"), unread):
            with unread:
                kind, tags = text(walk(specification, "resourceType")), walk(specification, "tags")
                held = tagged.setdefault(kind, [])
                for name in wanted:
                    with unread:
                        if label(walk(tags, name)):
                            held.append(name)
    for kind in _LAUNCHED:
        missing = [name for name in wanted if name not in tagged.get(kind, ())]
        if missing and not unread:
            yield f"tagSpecifications of {kind}", missing
        if missing:
            later.join(unread)


_STEPS: Mapping[str, tuple[Step, ...]] = {
    "tags": ("tags",),
    "freeformTags": ("freeformTags",),
    _LABELS: ("metadata", "labels"),
}
"""Where the remedy writes; lists are left alone, since which entry is meant is not known."""


def _default_tags(provider: Any, later: Later) -> frozenset[str]:
    """Names of the provider's default tags. Its inputs are JSON text on the wire."""
    with later:
        given = walk(provider, "defaultTags")
        held = _parsed(given) if isinstance(given, str) else walk(given, "tags")
        return frozenset(name for name in keys(held) if label(walk(held, name)))
    return frozenset()


@lru_cache(maxsize=64)
def _parsed(document: str) -> Any:
    try:
        return walk(json.loads(document), "tags")
    except (ValueError, RecursionError):
        return None


RULE = Rule(
    id="required-tags",
    order=(Section.HARDENING, 120),
    title="What costs money says whose it is",
    severity=Severity.LOW,
    types=AWS | OCI | {kinds.AUTO_SCALING_GROUP, NAMESPACE},
    levels={"dev": "remediate", "staging": "remediate", "prod": "mandatory", "homelab": "disabled"},
    config={
        "tags": schema.strings(REQUIRED, "Tags that every resource of a cloud must have."),
        "labels": schema.strings((), "Labels that every Kubernetes namespace must have."),
        "values": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "default": {},
            "description": "Name to value of the tags that a remediation may add.",
        },
    },
    rationale="A node that nobody owns is a node that nobody stops: the bill is split, and the forgotten found, by tags.",
    source="https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html",
    fix="Set gpu-ci:tags in the stack file: every provider and every OCI resource takes them from there.",
    check=_check,
    remedy=_mend,
)
