"""Addresses and ports of firewall rules, and what a NetworkPolicy denies and allows (kubernetes.io, NetworkPolicy v1)."""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from .kinds import fields
from .read import SETTLED, Data, Faults, Later, count, entries, items, keys, label, parsed, shown, some, text, walk, whole

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class _Shape(NamedTuple):
    """Where a kind has its rules ("" for a kind that is one), and in a rule its sources, its protocol and its ports."""

    inside: str
    sources: list[str]
    protocol: str
    span: list[str]
    bounds: list[str]


FIREWALLS = {token: _Shape(*row) for token, row in fields("firewall_rules").items()}


_read = partial(ipaddress.ip_network, strict=False)


def network(value: Data) -> IPNetwork | None:
    """Parse a CIDR, ignoring host bits; None if it is invalid."""
    read: IPNetwork | None = parsed(text(value), _read)
    return read


def world(value: Data) -> bool:
    """Whether a CIDR is the whole internet, or a larger part of it than any single owner has. Half of the internet counts."""
    return (cidr := network(value)) is not None and cidr.prefixlen < (8 if cidr.version == 4 else 16)


def exposed(token: str, props: Data, ports: Sequence[int], later: Later) -> Iterator[tuple[str, str, list[int]]]:
    """Path and value of each source of incoming TCP that is the whole internet, and those of the ports that it reaches.

    `later` collects unknown values. Raises UnknownError.
    """
    if token not in FIREWALLS or not _is_incoming(props):
        return
    shape = FIREWALLS[token]
    for at, rule in entries(props, shape.inside, later) if shape.inside else [("", props)]:
        with later:
            reached = _reached(walk(rule, shape.protocol), walk(rule, *shape.span), shape.bounds, ports)
            # The source of a rule may also be a security group or a service.
            for field in shape.sources if reached and text(walk(rule, "sourceType")) in ("", "CIDR_BLOCK") else ():
                source = later.walk(rule, field)
                for path, cidr in [(field, source)] if isinstance(source, str) else entries(rule, field, later):
                    if world(cidr):
                        yield f"{at}.{path}".lstrip("."), cidr, reached


def _is_incoming(props: Data) -> bool:
    """Whether a rule that says its direction is about incoming traffic."""
    return all(text(walk(props, field)).lower() in ("", "ingress") for field in ("type", "direction"))


def _reached(protocol: Data, holder: Data, bounds: Sequence[str], ports: Sequence[int]) -> list[int]:
    """The ports in a range; a range without bounds has every port. AWS spells TCP by name or number and all as -1, OCI as all."""
    if (name := label(protocol).lower()) not in ("tcp", "6", "-1", "all"):
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


def ways_out(props: Data, metadata: tuple[Address, ...], private: Sequence[IPNetwork], later: Later) -> Faults:
    """Rules of a policy that let pods reach instance metadata at one of these addresses, or every port of a private network."""
    nodes = [*map(ipaddress.ip_network, metadata)]
    with later:
        if not (metadata and _about(props, "Egress")):
            return
        for path, rule in entries(props, "spec.egress", later):
            with later:
                if not _reaches_port(walk(rule, "ports")):
                    continue
                if not count(walk(rule, "to")):
                    yield f"{path}.to is not set: {_consequence(nodes)}; name the destinations that jobs may reach"
                for place, peer in entries(rule, "to", later):
                    with later:
                        where, block = f"{path}.{place}.ipBlock", walk(peer, "ipBlock")
                        faults = [*_open(where, block, nodes, _consequence)]
                        yield from faults or _open(where, block, private if _all_ports(walk(rule, "ports")) else (), _of_private)


def _about(props: Data, direction: str) -> bool:
    """Whether a policy applies to a direction. Without `policyTypes` it applies to Egress only if it has egress rules."""
    if not count(types := walk(props, "spec", "policyTypes")):
        return direction == "Ingress" or count(walk(props, "spec", "egress")) > 0
    return some(partial(items, types), lambda entry: text(entry[1]) == direction, SETTLED)


def _open(path: str, block: Data, targets: Iterable[IPNetwork], consequence: Callable[[list[IPNetwork]], str]) -> Faults:
    later = Later()
    cidr = walk(block, "cidr")
    closed = [network(item) for _, item in items(walk(block, "except"), later)]
    reached = [target for target in targets if _inside(target, network(cidr)) and not any(_inside(target, one) for one in closed)]
    if reached:
        later.settle()
        yield f"{path}.cidr is {shown(cidr)}: {consequence(reached)}; add {', '.join(map(str, reached))} to except"


def _inside(inner: IPNetwork, outer: IPNetwork | None) -> bool:
    return outer is not None and inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _all_ports(ports: Data) -> bool:
    """Whether a rule is for a range of ports and not for single ones. Raises UnknownError."""
    wide = partial(items, ports)
    return not count(ports) or some(wide, lambda one: walk(one[1], "port") is None or "endPort" in keys(one[1]), SETTLED)


def _consequence(addresses: Iterable[IPNetwork]) -> str:
    reached = ", ".join(str(one.network_address) for one in addresses)
    return f"jobs can then reach the node's metadata and credentials at {reached}"


def _of_private(_: object) -> str:
    return "jobs can then reach nodes and other pods"


def _reaches_port(ports: Data) -> bool:
    """Whether a rule's ports include the port of instance metadata. A rule without ports covers all. Raises UnknownError."""

    def reaches(port: tuple[int, Data]) -> bool:
        if text(walk(port[1], "protocol")) not in ("", "TCP"):
            return False
        first, last = walk(port[1], "port"), walk(port[1], "endPort")
        low, high = whole(first), whole(last)
        return first is None or (low is not None and low <= _PORT <= (low if high is None else high))

    return not count(ports) or some(partial(items, ports), reaches, SETTLED)
