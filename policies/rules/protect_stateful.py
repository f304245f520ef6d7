"""protect-stateful: what cannot be made again is protected from deletion.

Judged: control planes, file systems, keys and compartments: `opts.protect`, or of an EKS cluster its own
`deletionProtection`, which holds whoever deletes it. Children of `eks.Cluster` inherit the option: where the component has no
inputs, they are judged alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from .kinds import EKS_CLUSTER, EKS_COMPONENT, OKE_CLUSTER, cloud_tokens, is_hollow
from .read import Later, true, walk
from .rule import Args, Rule, Section, Severity

STATEFUL = (
    cloud_tokens("aws", efs=("FileSystem",), kms=("Key",))
    | {EKS_CLUSTER, EKS_COMPONENT, OKE_CLUSTER}
    | cloud_tokens("oci", FileStorage=("FileSystem",), Kms=("Key", "Vault"), Identity=("Compartment",))
)


def _check(args: Args, _: Later) -> Iterator[str]:
    if args.opts.protect or is_hollow(args.resource_type, args.props):
        return
    if args.resource_type in (EKS_CLUSTER, EKS_COMPONENT) and true(walk(args.props, "deletionProtection")):
        return
    yield "opts.protect is not set: one wrong name in a stack file would delete it with all that is in it; protect it"


RULE = Rule(
    id="protect-stateful",
    order=(Section.HARDENING, 130),
    title="Clusters, file systems, keys and compartments are protected from deletion",
    severity=Severity.MEDIUM,
    types=STATEFUL,
    levels={"dev": "disabled", "staging": "disabled", "prod": "mandatory", "homelab": "disabled"},
    rationale="A renamed cluster is a deleted one: protection turns a slip into an error that names it.",
    source="https://www.pulumi.com/docs/iac/concepts/resources/options/protect/",
    fix="Write protect: true for the cluster in the stack file, or ResourceOptions(protect=True) on the resource.",
    check=_check,
)
