"""required-tags: what costs money says whose it is, what it is for and when it may go.

Judged: AWS resources by `tags` and their provider's `defaultTags`; Auto Scaling groups by tags that are propagated; OCI resources
by `freeformTags` or, in any namespace, `definedTags`; namespaces of Kubernetes by labels, where a stack asks for some. A tag
counts when it has a value. What a launch template launches is judged by `launched-tags`.

The remedy adds the tags for which the config has a value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from . import kinds, schema
from .draft import Draft
from .places import stack_file
from .read import Later, entries, keys, label, strings, text, true, walk
from .rule import Args, Rule, Section, Severity

REQUIRED = ("owner", "cost-center", "stack", "ttl")

_VPC = ("Eip", "InternetGateway", "NatGateway", "RouteTable", "SecurityGroup", "Subnet", "Vpc", "VpcEndpoint")
AWS = {kinds.EKS_COMPONENT} | kinds.cloud_tokens(
    "aws",
    budgets=("Budget",),
    ebs=("Volume",),
    ec2=("CapacityReservation", "Fleet", "Instance", "LaunchTemplate", *_VPC),
    ecr=("Repository",),
    efs=("FileSystem",),
    eks=("Addon", "Cluster", "NodeGroup"),
    iam=("Role",),
    kms=("Key",),
)
_VCN = ("InternetGateway", "NatGateway", "NetworkSecurityGroup", "RouteTable", "ServiceGateway", "Subnet", "Vcn")
OCI = kinds.cloud_tokens(
    "oci",
    Budget=("Budget",),
    ContainerEngine=("Cluster", "NodePool"),
    Core=("ComputeCapacityReservation", "Instance", "InstanceConfiguration", "InstancePool", "Volume", *_VCN),
    FileStorage=("FileSystem", "MountTarget"),
    Identity=("Policy",),
    Kms=("Key", "Vault"),
)
_LABELS = "metadata.labels"
_OWN = ("tags", "freeformTags")


def _check(args: Args, later: Later) -> Iterator[str]:
    for path, missing in _missing(args, later):
        names = ", ".join(missing)
        if path == _LABELS:
            yield f"Missing required labels: {names}. Add them to {path}."
        elif path in _OWN:
            yield f"Missing required tags: {names}. Set gpu-ci:tags in {stack_file()}."
        else:
            yield f"Missing required tags in {path}: {names}. Set gpu-ci:tags in {stack_file()}."


def _mend(args: Args, draft: Draft) -> None:
    """Adds tags and labels; lists are left alone, since which entry is meant is not known."""
    values = args.get_config().get("values")
    for path, missing in _missing(args, Later()):
        for name in missing:
            value = text(walk(values, name))
            if value and path in (*_OWN, _LABELS):
                draft.put(value, *path.split("."), name)


def _missing(args: Args, later: Later) -> Iterator[tuple[str, list[str]]]:
    """Where tags are missing, and which."""
    token, props, config = args.resource_type, args.props, args.get_config()
    if token == kinds.NAMESPACE:
        yield from _lacking(_LABELS, _names(config, "labels"), props, later)
        return
    wanted = _names(config, "tags", REQUIRED)
    if kinds.is_hollow(token, props):
        return
    unread = Later()
    if token == kinds.AUTO_SCALING_GROUP:
        yield from _unless("tags (with propagateAtLaunch)", wanted, _propagated(props, unread), unread, later)
        return
    if token in OCI:
        path, known = "freeformTags", _defined(props, unread)
    else:
        path, known = "tags", _default_tags(args.provider.props if args.provider is not None else None, unread)
    found = list(_lacking(path, [name for name in wanted if name not in known], props, later))
    if found and unread:
        # What is unknown may be just what is missing.
        later.join(unread)
    else:
        yield from found


def _names(config: Mapping[str, Any], setting: str, default: Sequence[str] = ()) -> list[str]:
    return [name for name in strings(config, setting, default) if name]


def _lacking(path: str, wanted: Iterable[str], holder: Any, later: Later) -> Iterator[tuple[str, list[str]]]:
    """Names that are not in the object at a path. One that is unknown may be there."""
    missing = []
    for name in wanted:
        unknown = Later()
        with unknown:
            if label(walk(holder, *path.split("."), name)):
                continue
        if not unknown:
            missing.append(name)
        later.join(unknown)
    if missing:
        yield path, missing


def _unless(
    path: str, wanted: Iterable[str], held: Collection[str], unread: Later, later: Later
) -> Iterator[tuple[str, list[str]]]:
    """Names that are not among those held. Any of them may be the one that is unknown."""
    missing = [name for name in wanted if name not in held]
    if missing and not unread:
        yield path, missing
    if missing:
        later.join(unread)


def _defined(props: Any, later: Later) -> set[str]:
    """Keys of OCI's defined tags, which are "namespace.key"."""
    with later:
        tags = walk(props, "definedTags")
        return {key.rpartition(".")[2] for key in keys(tags) if _set(tags, key, later)}
    return set()


def _propagated(props: Any, later: Later) -> set[str]:
    """Keys of a group's tags that its machines get."""
    found = set()
    for _, tag in entries(props, "tags", later):
        with later:
            if true(walk(tag, "propagateAtLaunch")) and label(walk(tag, "value")):
                found.add(text(walk(tag, "key")))
    return found


def _set(tags: Any, name: str, later: Later) -> bool:
    with later:
        return bool(label(walk(tags, name)))
    return False


def _default_tags(provider: Any, later: Later) -> set[str]:
    """Names of the provider's default tags. Its inputs are JSON text on the wire."""
    with later:
        given = walk(provider, "defaultTags")
        held = _parsed(given) if isinstance(given, str) else walk(given, "tags")
        return {name for name in keys(held) if label(walk(held, name))}
    return set()


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
    types=OCI | AWS | {kinds.AUTO_SCALING_GROUP, kinds.NAMESPACE},
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
