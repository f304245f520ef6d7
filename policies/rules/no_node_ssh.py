"""no-node-ssh: nodes have no SSH or remote desktop access from the internet.

Judged: SSH (22) and remote desktop (3389) in security groups and rules of AWS and OCI, and the remote access of an EKS node
group. Without a source group, remote access opens port 22 to the world (EKS API reference, RemoteAccessConfig).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .kinds import EKS_NODE_GROUP, OCI_NSG_RULE, OCI_SECURITY_LISTS, SECURITY_GROUP_INGRESS, SECURITY_GROUP_RULE, SECURITY_GROUPS
from .networks import covers, from_networks, world
from .read import Later, count, entries, items, keys, label, line, shown, text, walk
from .rule import Args, Rule, Section, Severity

PORTS = (22, 3389)

# AWS spells TCP by name or number and all protocols as -1; OCI by number and "all".
_TCP = ("tcp", "6", "-1", "all")


def _check(args: Args, later: Later) -> Iterator[str]:
    return _FAULTS[args.type](args.props, later)


def _node_group(props: Any, later: Later) -> Iterator[str]:
    access = walk(props, "remoteAccess")
    if keys(access) and not count(walk(access, "sourceSecurityGroupIds")):
        yield (
            "remoteAccess.sourceSecurityGroupIds is not set: port 22 of the nodes is then open to the world; "
            "remove remoteAccess, or name the security groups that may connect"
        )


def _group(props: Any, later: Later) -> Iterator[str]:
    for path, rule in entries(props, "ingress", later):
        yield from _aws(f"{path}.", rule, "protocol", ("cidrBlocks", "ipv6CidrBlocks"), later)


def _group_rule(props: Any, later: Later) -> Iterator[str]:
    if text(walk(props, "type")) == "ingress":
        yield from _aws("", props, "protocol", ("cidrBlocks", "ipv6CidrBlocks"), later)


def _aws(prefix: str, rule: Any, protocol: str, fields: tuple[str, ...], later: Later) -> Iterator[str]:
    with later:
        spoken = label(walk(rule, protocol)).lower()
        if spoken not in _TCP:
            return
        low, high = (None, None) if spoken in ("-1", "all") else (walk(rule, "fromPort"), walk(rule, "toPort"))
        open_ports = [port for port in PORTS if covers(low, high, port)]
        if not open_ports:
            return
        for field in fields:
            with later:
                value = walk(rule, field)
                given = [(f"{prefix}{field}", value)] if isinstance(value, str) else []
                given += [(f"{prefix}{field}[{index}]", cidr) for index, cidr in items(value, later)]
                for path, cidr in given:
                    if world(cidr):
                        yield _fault(path, cidr, open_ports)


def _nsg_rule(props: Any, later: Later) -> Iterator[str]:
    if text(walk(props, "direction")) == "INGRESS" and from_networks(props):
        yield from _oci("source", props, walk(props, "tcpOptions", "destinationPortRange"))


def _security_list(props: Any, later: Later) -> Iterator[str]:
    for path, rule in entries(props, "ingressSecurityRules", later):
        with later:
            if from_networks(rule):
                yield from _oci(f"{path}.source", rule, walk(rule, "tcpOptions"))


def _oci(path: str, rule: Any, ports: Any) -> Iterator[str]:
    protocol = label(walk(rule, "protocol")).lower()
    if protocol not in _TCP:
        return
    low, high = (None, None) if protocol == "all" else (walk(ports, "min"), walk(ports, "max"))
    open_ports = [port for port in PORTS if covers(low, high, port)]
    source = walk(rule, "source") if open_ports else None
    if world(source):
        yield _fault(path, source, open_ports)


def _fault(path: str, cidr: Any, ports: list[int]) -> str:
    named = " and ".join(map(str, ports))
    return f"{path} is {shown(cidr)}: port {line(named)} would be open to the world; name the networks that may connect"


_FAULTS: dict[str, Callable[[Any, Later], Iterator[str]]] = {
    EKS_NODE_GROUP: _node_group,
    **dict.fromkeys(SECURITY_GROUPS, _group),
    SECURITY_GROUP_RULE: _group_rule,
    SECURITY_GROUP_INGRESS: lambda props, later: _aws("", props, "ipProtocol", ("cidrIpv4", "cidrIpv6"), later),
    OCI_NSG_RULE: _nsg_rule,
    **dict.fromkeys(OCI_SECURITY_LISTS, _security_list),
}

RULE = Rule(
    id="no-node-ssh",
    order=(Section.HARDENING, 50),
    title="No SSH from the internet",
    severity=Severity.CRITICAL,
    types=frozenset(_FAULTS),
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    critical=True,
    rationale="A runner lives for one job and is never repaired by hand. SSH access would only help attackers.",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_RemoteAccessConfig.html",
    fix="Remove remoteAccess and every rule that opens port 22 or 3389 to 0.0.0.0/0 or ::/0.",
    check=_check,
)
