"""eks-endpoint-private: the Kubernetes API is private, or open to named networks only.

Judged: the control planes of EKS and OKE, and the firewall rules of an OKE endpoint. The EKS endpoint is public by default, and
without `publicAccessCidrs` it is open to the whole internet (EKS API reference, VpcConfigRequest). Network security groups
protect OKE's public endpoint: it must have one, and no rule may open port 6443 to the world. An OKE cluster without
`endpointConfig` has a public endpoint that no security group can protect (OCI documentation, Migrating to VCN-Native Clusters).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import schema
from .kinds import EKS_CLUSTER, EKS_COMPONENT, OCI_NSG_RULE, OCI_SECURITY_LISTS, OKE_CLUSTER, is_hollow
from .networks import covers, from_networks, network, world
from .places import CLUSTER_SETTINGS, entry
from .read import Later, count, entries, items, keys, shown, strings, text, true, walk
from .rule import Args, Rule, Section, Severity

_API_PORT = 6443
_TCP = "6"
_ALL = "all"


def _check(args: Args, later: Later) -> Iterator[str]:
    if is_hollow(args.type, args.props):
        return
    token, props, allowed = args.type, args.props, strings(args.config, "cidrs")
    if token == EKS_COMPONENT:
        yield from _eks("", props, allowed, later)
    elif token == EKS_CLUSTER:
        yield from _eks("vpcConfig.", walk(props, "vpcConfig"), allowed, later)
    elif token == OKE_CLUSTER:
        yield from _oke(props, later)
    elif token == OCI_NSG_RULE:
        if text(walk(props, "direction")) == "INGRESS":
            yield from _opened("source", props, ("tcpOptions", "destinationPortRange"))
    else:
        for path, rule in entries(props, "ingressSecurityRules", later):
            with later:
                yield from _opened(f"{path}.source", rule, ("tcpOptions",))


def _eks(prefix: str, config: Any, allowed: Sequence[str], later: Later) -> Iterator[str]:
    public = walk(config, "endpointPublicAccess")
    # The endpoint is public by default.
    if public is not None and not true(public):
        return
    cidrs = walk(config, "publicAccessCidrs")
    if not count(cidrs):
        yield (
            f"{prefix}publicAccessCidrs is not set: the API is then open to the whole internet; "
            "name your networks, or write endpointPublicAccess: false"
        )
    for index, cidr in items(cidrs, later):
        if fault := _named(cidr, allowed):
            yield f"{prefix}publicAccessCidrs[{index}] is {shown(cidr)}: {fault}"


def _named(cidr: Any, allowed: Sequence[str]) -> str:
    found = network(cidr)
    if found is None:
        return "not a network; write one such as 203.0.113.0/24"
    if world(cidr):
        return "the API is then open to the whole internet; name your networks"
    homes = [home for home in map(network, allowed) if home is not None]
    if homes and not any(home.version == found.version and found.subnet_of(home) for home in homes):  # type: ignore[arg-type]
        listed = ", ".join(map(str, homes[:3]))
        return f"not within the networks allowed here ({listed}); write one of those, or {entry('cidrs', str(found))}"
    return ""


def _oke(props: Any, later: Later) -> Iterator[str]:
    config = walk(props, "endpointConfig")
    if not keys(config):
        yield (
            "endpointConfig is not set: the API is then open to the whole internet, and no security group can protect it; "
            "set its subnetId"
        )
    if not true(walk(config, "isPublicIpEnabled")):
        return
    if not count(walk(config, "nsgIds")):
        yield (
            "endpointConfig.nsgIds is not set: no security group protects the public API endpoint; "
            "set a network security group, or write isPublicIpEnabled: false"
        )


def _opened(path: str, rule: Any, ports: tuple[str, ...]) -> Iterator[str]:
    if from_networks(rule) and text(walk(rule, "protocol")) in (_TCP, _ALL):
        source, span = walk(rule, "source"), walk(rule, *ports)
        if world(source) and covers(walk(span, "min"), walk(span, "max"), _API_PORT):
            yield f"{path} is {shown(source)}: port {_API_PORT} is the Kubernetes API; name your networks"


RULE = Rule(
    id="eks-endpoint-private",
    order=(Section.HARDENING, 30),
    title="The Kubernetes API is not open to the whole internet",
    severity=Severity.CRITICAL,
    types=frozenset((EKS_CLUSTER, EKS_COMPONENT, OKE_CLUSTER, OCI_NSG_RULE)) | OCI_SECURITY_LISTS,
    levels={"dev": "advisory", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    critical=True,
    config={
        "cidrs": schema.strings(
            (), "Networks that may reach a public EKS endpoint. Empty allows every network but the whole internet."
        )
    },
    rationale="Anybody who reaches the API with a leaked token controls the cluster, its GPUs and every secret in it.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html",
    fix=(
        "EKS: endpointPublicAccess false, or publicAccessCidrs with your networks. "
        "OKE: isPublicIpEnabled false, or add a network security group."
    ),
    settings=f"{CLUSTER_SETTINGS}.endpoint.publicCidrs",
    check=_check,
    of_existing=dict.fromkeys(("eks", "oke", "kubernetes"), "who reaches its API"),
)
