"""imds-v2-hop-one: instance metadata requires a session token and answers only the node itself.

Judged: launch templates, EC2 instances and spot requests, EKS node groups without a launch template, Karpenter's EC2NodeClass,
OCI instances and instance configurations, OKE node pools. If a node group has a launch template, or an instance has one and no
options of its own, the rule judges the template. Karpenter's CRD (1.14) fills in `required` and 1, so an EC2NodeClass may omit
them.

OCI has no hop limit, but it can reject requests without the v2 header. A node pool sets that in its nodes' metadata, as text
(docs.oracle.com, Configuring IMDS for Kubernetes Clusters), and existing nodes keep their setting. A machine that a launcher
boots for one job is not a resource, so this rule does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import kinds, schema
from .draft import Draft
from .read import Later, keys, shown, text, true, walk, whole
from .rule import Args, Rule, Section, Severity

MAX_HOP = 1

_LEGACY = "areLegacyImdsEndpointsDisabled"
# Where a remedy sets the flag, and how each kind spells it. A configuration may hold several options, so it is left alone.
_LEGACY_FLAGS: dict[str, tuple[Any, ...]] = {
    kinds.OCI_INSTANCE: ("instanceOptions", _LEGACY, True),
    kinds.OKE_NODE_POOL: ("nodeMetadata", _LEGACY, "true"),
}


def _check(args: Args, later: Later) -> Iterator[str]:
    max_hop = whole(args.config.get("maxHop", MAX_HOP)) or MAX_HOP
    yield from _FAULTS[args.type](args.props, max_hop, later)


def _launch_template(props: Any, max_hop: int, later: Later) -> Iterator[str]:
    yield from _metadata_options("metadataOptions", walk(props, "metadataOptions"), max_hop, later, defaults=False)


def _instance(props: Any, max_hop: int, later: Later) -> Iterator[str]:
    # The ids in a launch template reference are unknown before the template exists, so only the reference counts.
    if walk(props, "metadataOptions") is None and keys(walk(props, "launchTemplate")):
        return
    yield from _launch_template(props, max_hop, later)


def _node_group(props: Any, max_hop: int, later: Later) -> Iterator[str]:
    if not keys(walk(props, "launchTemplate")):
        yield (
            "launchTemplate is not set: EKS then chooses the metadata options; set a launch template with "
            f"metadataOptions {{httpTokens: required, httpPutResponseHopLimit: {max_hop}}}"
        )


def _node_class(props: Any, max_hop: int, later: Later) -> Iterator[str]:
    options = walk(props, "spec", "metadataOptions")
    if options is not None:
        yield from _metadata_options("spec.metadataOptions", options, max_hop, later, defaults=True)


def _metadata_options(path: str, options: Any, max_hop: int, later: Later, *, defaults: bool) -> Iterator[str]:
    """Faults of EC2 metadata options. `defaults` says that the API fills in safe values for missing ones."""
    if not (keys(options) or defaults):
        yield (
            f"{path} is not set: metadata then answers requests without a token; "
            f"write {{httpTokens: required, httpPutResponseHopLimit: {max_hop}}}"
        )
        return
    with later:
        tokens = walk(options, "httpTokens")
        if text(tokens) != "required" and not (defaults and tokens is None):
            yield f"{path}.httpTokens is {shown(tokens)}: IMDSv2 requires a session token; write required"
    with later:
        hop = walk(options, "httpPutResponseHopLimit")
        if not (1 <= (whole(hop) or 0) <= max_hop or (defaults and hop is None)):
            yield (
                f"{path}.httpPutResponseHopLimit is {shown(hop)}: above {max_hop} pods can reach the node's credentials; "
                f"write {max_hop}"
            )


def _oci_configuration(props: Any, _: int, later: Later) -> Iterator[str]:
    for path, launch in kinds.launches(props, later):
        yield from _legacy(f"{path}.", launch, "instanceOptions", later)


def _legacy(prefix: str, details: Any, field: str, later: Later, *, wanted: str = "true") -> Iterator[str]:
    with later:
        disabled = walk(details, field, _LEGACY)
        if not true(disabled):
            yield f"{prefix}{field}.{_LEGACY} is {shown(disabled)}: IMDSv1 then answers requests without a header; write {wanted}"


def _remediate(args: Args, draft: Draft) -> None:
    """Sets the options if the resource has such properties. A remediation cannot create a launch template."""
    max_hop = whole(args.config.get("maxHop", MAX_HOP)) or MAX_HOP
    later = Later()
    token = args.type
    if token in _OPTIONS and any(True for _ in _FAULTS[token](args.props, max_hop, later)):
        _remediate_options(_OPTIONS[token], args.props, max_hop, draft)
    elif token in _LEGACY_FLAGS:
        *above, value = _LEGACY_FLAGS[token]
        with later:
            if not true(walk(args.props, *above)):
                draft.put(value, *above)


def _remediate_options(path: tuple[str, ...], props: Any, max_hop: int, draft: Draft) -> None:
    later = Later()
    with later:
        if text(walk(props, *path, "httpTokens")) != "required":
            draft.put("required", *path, "httpTokens")
    with later:
        if not 1 <= (whole(walk(props, *path, "httpPutResponseHopLimit")) or 0) <= max_hop:
            draft.put(max_hop, *path, "httpPutResponseHopLimit")


_FAULTS: dict[str, Callable[[Any, int, Later], Iterator[str]]] = {
    kinds.LAUNCH_TEMPLATE: _launch_template,
    kinds.EC2_INSTANCE: _instance,
    kinds.SPOT_REQUEST: _instance,
    kinds.EKS_NODE_GROUP: _node_group,
    kinds.EC2_NODE_CLASS: _node_class,
    kinds.OCI_INSTANCE: lambda props, _, later: _legacy("", props, "instanceOptions", later),
    kinds.OCI_INSTANCE_CONFIGURATION: _oci_configuration,
    kinds.OKE_NODE_POOL: lambda props, _, later: _legacy("", props, "nodeMetadata", later, wanted='"true"'),
}
_OPTIONS = {
    **dict.fromkeys((kinds.LAUNCH_TEMPLATE, kinds.EC2_INSTANCE, kinds.SPOT_REQUEST), ("metadataOptions",)),
    kinds.EC2_NODE_CLASS: ("spec", "metadataOptions"),
}
"""Where a remedy writes the options of EC2."""

RULE = Rule(
    id="imds-v2-hop-one",
    order=(Section.HARDENING, 10),
    title="Instance metadata needs a token and stays on the node",
    severity=Severity.CRITICAL,
    types=frozenset(_FAULTS),
    levels={"dev": "remediate", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    critical=True,
    config={
        "maxHop": schema.integer(
            MAX_HOP,
            "The largest hop limit of an EC2 metadata answer; 2 lets pods reach the node's credentials.",
            minimum=1,
            maximum=64,
        )
    },
    rationale="A job that reads the node's metadata gets the node's cloud credentials, whatever its own rights are.",
    source="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
    fix=(
        "EC2: metadataOptions {httpTokens: required, httpPutResponseHopLimit: 1}. "
        f'OCI: instanceOptions.{_LEGACY} true; OKE: nodeMetadata.{_LEGACY} "true".'
    ),
    check=_check,
    remedy=_remediate,
)
