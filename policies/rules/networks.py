"""Addresses and ports of firewall rules, and what a NetworkPolicy denies and allows (kubernetes.io, NetworkPolicy v1)."""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from .kinds import OCI_NSG_RULE, OCI_SECURITY_LISTS, SECURITY_GROUP_INGRESS, SECURITY_GROUP_RULE, SECURITY_GROUPS
from .read import Data, Faults, Later, count, entries, items, keys, label, shown, surely, text, walk, whole

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_CIDRS = ("cidrBlocks", "ipv6CidrBlocks")


def network(value: Data) -> IPNetwork | None:
    """Parse a CIDR, ignoring host bits; None if it is invalid."""
    try:
        return ipaddress.ip_network(text(value), strict=False)
    except ValueError:
        return None


def world(value: Data) -> bool:
    """Whether a CIDR is the whole internet, or a larger part of it than any single owner has. Half of the internet counts."""
    parsed = network(value)
    return parsed is not None and parsed.prefixlen < (8 if parsed.version == 4 else 16)


def exposed(token: str, props: Data, ports: Sequence[int], later: Later) -> Iterator[tuple[str, str, list[int]]]:
    """Path and value of each source of incoming TCP that is the whole internet, and those of the ports that it reaches.

    `later` collects unknown values. Raises UnknownError.
    """
    if token in SECURITY_GROUPS:
        for path, rule in entries(props, "ingress", later):
            yield from _aws(f"{path}.", rule, "protocol", _CIDRS, ports, later)
    elif token == SECURITY_GROUP_RULE and text(walk(props, "type")) == "ingress":
        yield from _aws("", props, "protocol", _CIDRS, ports, later)
    elif token == SECURITY_GROUP_INGRESS:
        yield from _aws("", props, "ipProtocol", ("cidrIpv4", "cidrIpv6"), ports, later)
    elif token == OCI_NSG_RULE and text(walk(props, "direction")) == "INGRESS":
        yield from _oci("source", props, ("tcpOptions", "destinationPortRange"), ports)
    elif token in OCI_SECURITY_LISTS:
        for path, rule in entries(props, "ingressSecurityRules", later):
            with later:
                yield from _oci(f"{path}.source", rule, ("tcpOptions",), ports)


def _aws(
    prefix: str, rule: Data, protocol: str, fields: Sequence[str], ports: Sequence[int], later: Later
) -> Iterator[tuple[str, str, list[int]]]:
    with later:
        reached = _reached(walk(rule, protocol), rule, ("fromPort", "toPort"), ports)
        for field in fields if reached else ():
            with later:
                value = walk(rule, field)
                sources = [(f"{prefix}{field}", value)] if isinstance(value, str) else entries(rule, field, later)
                for path, cidr in sources:
                    if world(cidr):
                        yield path if isinstance(value, str) else f"{prefix}{path}", cidr, reached


def _oci(path: str, rule: Data, span: Sequence[str], ports: Sequence[int]) -> Iterator[tuple[str, str, list[int]]]:
    # The source of a rule may also be a security group or a service.
    if text(walk(rule, "sourceType")) in ("", "CIDR_BLOCK"):
        reached = _reached(walk(rule, "protocol"), walk(rule, *span), ("min", "max"), ports)
        source = walk(rule, "source") if reached else None
        if world(source):
            yield path, text(source), reached


def _reached(protocol: Data, holder: Data, bounds: tuple[str, str], ports: Sequence[int]) -> list[int]:
    """The ports in a range; a range without bounds has every port. AWS spells TCP by name or number and all as -1, OCI as all."""
    name = label(protocol).lower()
    if name not in ("tcp", "6", "-1", "all"):
        return []
    first, last = (None, None) if name in ("-1", "all") else (whole(walk(holder, bound)) for bound in bounds)
    return [port for port in ports if (0 if first is None else first) <= port <= (65535 if last is None else last)]


DIRECTIONS = ("Ingress", "Egress")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORT = 80
"""Port of instance metadata. OCI's DNS has the same address, but another port."""


def denies(props: Data, direction: str) -> bool:
    """Whether a policy isolates every pod of its namespace in a direction. Raises UnknownError."""
    selector = walk(props, "spec", "podSelector")
    if any(keys(walk(selector, field)) or count(walk(selector, field)) for field in keys(selector)):
        return False
    return _about(props, direction)


def ways_out(props: Data, metadata: tuple[Address, ...], later: Later) -> Faults:
    """Rules of a policy that let pods reach instance metadata at one of these addresses."""
    with later:
        if not (metadata and _about(props, "Egress")):
            return
        for path, rule in entries(props, "spec.egress", later):
            with later:
                if not _reaches_port(walk(rule, "ports")):
                    continue
                if not count(walk(rule, "to")):
                    yield f"{path}.to is not set: {_consequence(metadata)}; name the destinations that jobs may reach"
                for place, peer in entries(rule, "to", later):
                    with later:
                        yield from _open(f"{path}.{place}.ipBlock", walk(peer, "ipBlock"), metadata)


def _about(props: Data, direction: str) -> bool:
    """Whether a policy applies to a direction. Without `policyTypes` it applies to Egress only if it has egress rules."""
    types = walk(props, "spec", "policyTypes")
    if not count(types):
        return direction == "Ingress" or count(walk(props, "spec", "egress")) > 0
    return surely(partial(items, types), lambda entry: text(entry[1]) == direction)


def _open(path: str, block: Data, metadata: tuple[Address, ...]) -> Faults:
    later = Later()
    cidr = walk(block, "cidr")
    allowed = network(cidr)
    inside = [address for address in metadata if allowed is not None and address in allowed]
    if not inside:
        return
    closed = [excluded for _, item in items(walk(block, "except"), later) if (excluded := network(item)) is not None]
    reached = [address for address in inside if not any(address in excluded for excluded in closed)]
    if reached:
        later.settle()
        hosts = ", ".join(f"{address}/{address.max_prefixlen}" for address in reached)
        yield f"{path}.cidr is {shown(cidr)}: {_consequence(reached)}; add {hosts} to except"


def _consequence(addresses: Iterable[Address]) -> str:
    return f"jobs can then reach the node's metadata and credentials at {', '.join(map(str, addresses))}"


def _reaches_port(ports: Data) -> bool:
    """Whether a rule's ports include the port of instance metadata. A rule without ports covers all. Raises UnknownError."""

    def reaches(port: tuple[int, Data]) -> bool:
        if text(walk(port[1], "protocol")) not in ("", "TCP"):
            return False
        first, last = walk(port[1], "port"), walk(port[1], "endPort")
        low, high = whole(first), whole(last)
        return first is None or (low is not None and low <= _PORT <= (low if high is None else high))

    return not count(ports) or surely(partial(items, ports), reaches)
