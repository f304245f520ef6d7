"""Addresses and ports of firewall rules."""

from __future__ import annotations

import ipaddress
from typing import Any

from .read import text, walk, whole

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LAST_PORT = 65535
_WIDEST = {4: 8, 6: 16}
"""Prefix length of the largest network of a single owner, by IP version. Half of the internet counts as the internet."""


def network(value: Any) -> IPNetwork | None:
    """Parse a CIDR, ignoring host bits; None if it is invalid."""
    try:
        return ipaddress.ip_network(text(value), strict=False)
    except ValueError:
        return None


def world(value: Any) -> bool:
    """Whether a CIDR is the whole internet, or a larger part of it than any single owner has."""
    found = network(value)
    return found is not None and found.prefixlen < _WIDEST[found.version]


def covers(low: Any, high: Any, port: int) -> bool:
    """Whether a port is in a range; a range without bounds has every port."""
    first, last = whole(low), whole(high)
    return (0 if first is None else first) <= port <= (_LAST_PORT if last is None else last)


def from_networks(rule: Any) -> bool:
    """Whether the source of an OCI ingress rule is a network, not a security group or a service. Raises UnknownError."""
    return text(walk(rule, "sourceType")) in ("", "CIDR_BLOCK")
