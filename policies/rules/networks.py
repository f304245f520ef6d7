"""Addresses and ports of firewall rules."""

from __future__ import annotations

import ipaddress
from typing import Any

from .read import text, walk, whole

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LAST_PORT = 65535
_WIDEST = {4: 8, 6: 16}
"""Bits of the largest network that one holder has, by IP version: the world in two halves is the world."""


def network(value: Any) -> IPNetwork | None:
    """The network of a CIDR, host bits aside; None for what is none."""
    try:
        return ipaddress.ip_network(text(value), strict=False)
    except ValueError:
        return None


def world(value: Any) -> bool:
    """Whether a CIDR is the whole internet, or more of it than anybody holds."""
    found = network(value)
    return found is not None and found.prefixlen < _WIDEST[found.version]


def covers(low: Any, high: Any, port: int) -> bool:
    """Whether a range of ports has this one in it; without bounds it has all."""
    first, last = whole(low), whole(high)
    return (0 if first is None else first) <= port <= (_LAST_PORT if last is None else last)


def from_networks(rule: Any) -> bool:
    """Whether an ingress rule of OCI names a network, not a security group or a service. Raises UnknownValueError."""
    return text(walk(rule, "sourceType")) in ("", "CIDR_BLOCK")
