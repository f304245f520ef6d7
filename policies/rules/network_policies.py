"""What a NetworkPolicy denies and allows (kubernetes.io, NetworkPolicy v1)."""

import ipaddress
from collections.abc import Iterable, Iterator
from functools import partial

from .networks import network
from .read import Data, Later, count, entries, items, keys, shown, some, text, walk, whole

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


def ways_out(props: Data, metadata: tuple[Address, ...], later: Later) -> Iterator[str]:
    """Rules of a policy that let pods reach instance metadata at one of these addresses."""
    with later:
        if not (metadata and _about(props, "Egress")):
            return
        for path, rule in entries(props, "spec.egress", later):
            with later:
                if not _reaches_port(walk(rule, "ports")):
                    continue
                if not count(walk(rule, "to")):
                    yield f"{path}.to is not set: {_reached(metadata)}; name the destinations that jobs may reach"
                for place, peer in entries(rule, "to", later):
                    with later:
                        yield from _open(f"{path}.{place}.ipBlock", walk(peer, "ipBlock"), metadata)


def _about(props: Data, direction: str) -> bool:
    """Whether a policy applies to a direction. Without `policyTypes` it applies to Egress only if it has egress rules."""
    later = Later()
    types = walk(props, "spec", "policyTypes")
    if not count(types):
        return direction == "Ingress" or count(walk(props, "spec", "egress")) > 0
    if any(text(item) == direction for _, item in items(types, later)):
        return True
    later.settle()
    return False


def _open(path: str, block: Data, metadata: tuple[Address, ...]) -> Iterator[str]:
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
        yield f"{path}.cidr is {shown(cidr)}: {_reached(reached)}; add {hosts} to except"


def _reached(addresses: Iterable[Address]) -> str:
    return f"jobs can then reach the node's metadata and credentials at {', '.join(map(str, addresses))}"


def _reaches_port(ports: Data) -> bool:
    """Whether a rule's ports include the port of instance metadata. A rule without ports covers all. Raises UnknownError."""

    def reaches(port: tuple[int, Data]) -> bool:
        if text(walk(port[1], "protocol")) not in ("", "TCP"):
            return False
        first, last = walk(port[1], "port"), walk(port[1], "endPort")
        low, high = whole(first), whole(last)
        return first is None or (low is not None and low <= _PORT <= (low if high is None else high))

    later = Later()
    if not count(ports) or some(partial(items, ports), reaches, later):
        return True
    later.settle()
    return False
