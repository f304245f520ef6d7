"""imds-v2-hop-one: instance metadata requires a session token and answers only the node itself.

Judged: launch templates, EC2 instances and spot requests, EKS node groups without a launch template, Karpenter's EC2NodeClass,
OCI instances and instance configurations, OKE node pools. If a node group has a launch template, or an instance has one and no
options of its own, the rule judges the template. Karpenter's CRD (1.14) fills in `required` and 1, so an EC2NodeClass may omit
them.

OCI has no hop limit, but it can reject requests without the v2 header. A node pool sets that in its nodes' metadata, as text
(docs.oracle.com, Configuring IMDS for Kubernetes Clusters), and existing nodes keep their setting. A machine that a launcher
boots for one job is not a resource, so this rule does not see it.
"""

from . import kinds
from .read import Data, Later, bound, keys, shown, text, true, walk, whole
from .rule import Args, Mendings, Rule, facts, mending, said

_LEGACY = "areLegacyImdsEndpointsDisabled"
_FLAGS = kinds.fields("legacy_metadata")
"""Where OCI has the flag, and how each kind spells it."""
_IPV6 = ("httpProtocolIpv6", "httpProtocolIPv6")
"""The flag of metadata by IPv6, as the provider and as Karpenter spell it."""
_INSTANCES = (kinds.EC2_INSTANCE, kinds.SPOT_REQUEST)
_OPTIONS = kinds.fields("metadata_options")
"""Where EC2 has the options."""


def _faults(args: Args, later: Later) -> Mendings:
    """A remedy cannot create a launch template. It leaves an instance configuration alone: it may hold several options."""
    max_hop = bound(args.config, "maxHop")
    if args.type in _OPTIONS:
        yield from _metadata_options(args.type, args.props, max_hop, later)
    elif args.type in _FLAGS:
        yield from _legacy(args.type, args.props, later)
    elif not keys(walk(args.props, "launchTemplate")):
        yield said("no_launch_template", max_hop=max_hop), {}


def _metadata_options(token: str, props: Data, max_hop: int, later: Later) -> Mendings:
    where = _OPTIONS[token]
    path, options = ".".join(where), walk(props, *where)
    version, hops = {(*where, "httpTokens"): "required"}, {(*where, "httpPutResponseHopLimit"): max_hop}
    # Karpenter's API fills in safe values for missing ones.
    defaults = token == kinds.EC2_NODE_CLASS
    # The ids in a launch template reference are unknown before the template exists, so only the reference counts.
    if options is None and (defaults or (token in _INSTANCES and keys(walk(props, "launchTemplate")))):
        return
    if not (keys(options) or defaults):
        yield said("no_metadata_options", path=path, max_hop=max_hop), {**version, **hops}
        return
    with later:
        if text(tokens := walk(options, "httpTokens")) != "required" and not (defaults and tokens is None):
            yield f"{path}.httpTokens is {shown(tokens)}: IMDSv2 requires a session token; write required", version
    with later:
        hop = walk(options, "httpPutResponseHopLimit")
        if not (1 <= (whole(hop) or 0) <= max_hop or (defaults and hop is None)):
            yield said("metadata_hops", path=path, hop=hop, max_hop=max_hop), hops
    for name in _IPV6:
        with later:
            if text(walk(options, name)) == "enabled":
                yield said("metadata_ipv6", path=path, name=name), {(*where, name): "disabled"}


def _legacy(token: str, props: Data, later: Later) -> Mendings:
    field, value = _FLAGS[token]
    fixes = {(field, _LEGACY): value} if token != kinds.OCI_INSTANCE_CONFIGURATION else {}
    for prefix, body in kinds.bodies(token, props, later):
        with later:
            if not true(disabled := walk(body, field, _LEGACY)):
                yield said("oci_metadata", prefix=prefix, field=field, legacy=_LEGACY, disabled=disabled, value=value), fixes


RULE = Rule(**facts(__name__), types=frozenset((*_OPTIONS, *_FLAGS, kinds.EKS_NODE_GROUP)), **mending(_faults))
