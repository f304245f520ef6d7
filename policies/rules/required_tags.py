"""required-tags: resources that cost money have tags for owner, cost center, stack and time to live.

Judged: AWS resources by `tags` and their provider's `defaultTags`; Auto Scaling groups by tags that propagate to machines; OCI
resources by `freeformTags` or, in any namespace, `definedTags`; Kubernetes namespaces by labels, if the stack requires some. A
tag counts only if it has a value. The policy `launched-tags` checks the tags that a launch template sets.

A remediation adds the tags that have a value in the config.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from . import kinds, schema
from .draft import Draft
from .places import setting, stack_file
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
            yield f"Missing required labels: {names}. Add them to {path}, or change {setting('labels')}."
        elif path in _OWN:
            yield f"Missing required tags: {names}. Set {stack_file('tags')}."
        else:
            yield f"Missing required tags in {path}: {names}. Set {stack_file('tags')}."


def _remediate(args: Args, draft: Draft) -> None:
    """Adds tags and labels. It leaves lists alone, because it cannot know which entry to change."""
    values = args.config.get("values")
    for path, missing in _missing(args, Later()):
        for name in missing:
            value = text(walk(values, name))
            if value and path in (*_OWN, _LABELS):
                draft.put(value, *path.split("."), name)


def _missing(args: Args, later: Later) -> Iterator[tuple[str, list[str]]]:
    """Where tags are missing, and which."""
    token, props, config = args.type, args.props, args.config
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
        # The unknown value may be the missing tag.
        later.join(unread)
    else:
        yield from found


def _names(config: Mapping[str, Any], setting: str, default: Sequence[str] = ()) -> list[str]:
    return [name for name in strings(config, setting, default) if name]


def _lacking(path: str, wanted: Iterable[str], holder: Any, later: Later) -> Iterator[tuple[str, list[str]]]:
    """The path, and the names that are missing in the object at that path. A name with an unknown value may be there."""
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
    path: str, wanted: Iterable[str], present: Collection[str], unread: Later, later: Later
) -> Iterator[tuple[str, list[str]]]:
    """The path, and the wanted names that are not present. If a value is unknown, `later` collects it instead."""
    missing = [name for name in wanted if name not in present]
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
        tags = _parsed(given) if isinstance(given, str) else walk(given, "tags")
        return {name for name in keys(tags) if label(walk(tags, name))}
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
    title="Resources have required tags",
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
    rationale="A node without an owner keeps running. Tags split the bill and help to find forgotten resources.",
    source="https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html",
    fix="Set gpu-ci:tags in the stack file: every provider and every OCI resource takes them from there.",
    check=_check,
    remedy=_remediate,
)
