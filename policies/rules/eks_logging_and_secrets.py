"""eks-logging-and-secrets: the control plane of EKS writes its logs, and where asked its secrets have a key of the owner's.

Judged: EKS clusters. Kubernetes 1.28 and newer encrypt all API data with a key of AWS's (EKS user guide, envelope encryption),
so a key of one's own is a choice: `requireKms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from .kinds import EKS_CLUSTER, EKS_COMPONENT, is_hollow
from .read import Later, items, strings, text, true, walk
from .rule import Rule

LOG_TYPES = ("api", "audit", "authenticator")
_KEY = {EKS_COMPONENT: ("encryptionConfigKeyArn",), EKS_CLUSTER: ("encryptionConfig", "provider", "keyArn")}


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    if is_hollow(args.resource_type, args.props):
        return
    later = Later()
    config = args.get_config()
    wanted = strings(config, "logTypes", LOG_TYPES)
    for fault in _faults(args.resource_type, args.props, wanted, true(config.get("requireKms")), later):
        report(fault, None)
    later.settle()


def _faults(token: str, props: Any, wanted: Sequence[str], kms: bool, later: Later) -> Iterator[str]:
    unread = Later()
    written: list[str] = []
    with unread:
        written = [text(name) for _, name in items(walk(props, "enabledClusterLogTypes"), unread)]
    missing = [name for name in wanted if name and name not in written]
    # An unknown type may be the one that is missing.
    if missing and not unread:
        yield f"enabledClusterLogTypes lacks {', '.join(missing)}: nothing else tells who did what in the cluster; add them"
    if missing:
        later.join(unread)
    if kms:
        with later:
            path = _KEY[token]
            if not text(walk(props, *path)):
                yield f"{'.'.join(path)} is not set: this stack asks for a key of its own; set the ARN of a KMS key"


RULE = Rule(
    id="eks-logging-and-secrets",
    title="EKS writes the logs that an inquiry needs",
    severity=Severity.MEDIUM,
    types=frozenset((EKS_CLUSTER, EKS_COMPONENT)),
    levels={"dev": "advisory", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    config={
        "logTypes": {
            "type": "array",
            "items": {"type": "string", "enum": ["api", "audit", "authenticator", "controllerManager", "scheduler"]},
            "default": list(LOG_TYPES),
            "description": "Control plane logs that must be on.",
        },
        "requireKms": {
            "type": "boolean",
            "default": False,
            "description": "Whether secrets must be encrypted with a KMS key of the account's own.",
        },
    },
    rationale="Runners execute code that strangers wrote: when one misbehaves, the audit log is what tells what it did.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
    fix="Add api, audit and authenticator to enabledClusterLogTypes; with requireKms, set the key's ARN too.",
    check=_check,
)
