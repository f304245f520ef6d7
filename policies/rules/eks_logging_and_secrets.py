"""eks-logging-and-secrets: the control plane of EKS writes its logs, and where asked its secrets have a key of the owner's.

Judged: EKS clusters. Kubernetes 1.28 and newer encrypt all API data with a key of AWS's (EKS user guide, envelope encryption),
so a key of one's own is a choice: `requireKms`.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import schema
from .kinds import EKS_CLUSTER, EKS_COMPONENT, is_hollow
from .read import Later, entries, strings, text, true, walk
from .rule import Args, Rule, Section, Severity

LOG_TYPES = ("api", "audit", "authenticator")
_KEY = {EKS_COMPONENT: ("encryptionConfigKeyArn",), EKS_CLUSTER: ("encryptionConfig", "provider", "keyArn")}


def _check(args: Args, later: Later) -> Iterator[str]:
    if is_hollow(args.resource_type, args.props):
        return
    config = args.get_config()
    unread = Later()
    written = [text(name) for _, name in entries(args.props, "enabledClusterLogTypes", unread)]
    missing = [name for name in strings(config, "logTypes", LOG_TYPES) if name and name not in written]
    # An unknown type may be the one that is missing.
    if missing and not unread:
        yield f"enabledClusterLogTypes lacks {', '.join(missing)}: nothing else tells who did what in the cluster; add them"
    if missing:
        later.join(unread)
    if true(config.get("requireKms")):
        with later:
            path = _KEY[args.resource_type]
            if not text(walk(args.props, *path)):
                yield f"{'.'.join(path)} is not set: this stack asks for a key of its own; set the ARN of a KMS key"


RULE = Rule(
    id="eks-logging-and-secrets",
    order=(Section.HARDENING, 40),
    title="EKS writes the logs that an inquiry needs",
    severity=Severity.MEDIUM,
    types=frozenset((EKS_CLUSTER, EKS_COMPONENT)),
    levels={"dev": "advisory", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    config={
        "logTypes": schema.strings(
            LOG_TYPES,
            "Control plane logs that must be on.",
            enum=["api", "audit", "authenticator", "controllerManager", "scheduler"],
        ),
        "requireKms": schema.flag("Whether secrets must be encrypted with a KMS key of the account's own."),
    },
    rationale="Runners execute code that strangers wrote: when one misbehaves, the audit log is what tells what it did.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
    fix="Add api, audit and authenticator to enabledClusterLogTypes; with requireKms, set the key's ARN too.",
    check=_check,
    of_existing=dict.fromkeys(("eks", "kubernetes"), "which logs its control plane writes"),
)
