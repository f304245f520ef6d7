"""Addresses and ports of firewall rules."""

import ipaddress
from collections.abc import Iterator, Sequence

from .kinds import OCI_NSG_RULE, OCI_SECURITY_LISTS, SECURITY_GROUP_INGRESS, SECURITY_GROUP_RULE, SECURITY_GROUPS
from .read import Data, Later, entries, label, text, walk, whole

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LAST_PORT = 65535
_CIDRS = ("cidrBlocks", "ipv6CidrBlocks")
_WIDEST = {4: 8, 6: 16}
"""Prefix length of the largest network of a single owner, by IP version. Half of the internet counts as the internet."""


def network(value: Data) -> IPNetwork | None:
    """Parse a CIDR, ignoring host bits; None if it is invalid."""
    try:
        return ipaddress.ip_network(text(value), strict=False)
    except ValueError:
        return None


def world(value: Data) -> bool:
    """Whether a CIDR is the whole internet, or a larger part of it than any single owner has."""
    parsed = network(value)
    return parsed is not None and parsed.prefixlen < _WIDEST[parsed.version]


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
    return [port for port in ports if (0 if first is None else first) <= port <= (_LAST_PORT if last is None else last)]
