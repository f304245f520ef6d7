"""Networks that jobs cannot reach: NetworkPolicies block pods, security rules block OCI machines. Settings can open some."""

import ipaddress
from collections.abc import Iterable

INTERNET = "0.0.0.0/0"
LINK_LOCAL = "169.254.0.0/16"
"""Link-local addresses of the node: instance metadata at 169.254.169.254, EKS Pod Identity at 169.254.170.23."""
CLOSED = ("10.0.0.0/8", "100.64.0.0/10", LINK_LOCAL, "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15")
"""IPv4 networks outside of the internet (RFC 1918, 2544, 3927, 6598): nodes, other pods, services, networks peered with a VPC.

EKS pods can have addresses of 100.64.0.0/10 and 198.19.0.0/16 (AWS, "Amazon EKS now supports additional VPC CIDR blocks").
"""


def closed_networks(own: str | None) -> tuple[str, ...]:
    """The networks that jobs cannot reach.

    `own` is the range of the cluster's network, which may be public. It is None for an existing network of unknown range.
    """
    return CLOSED if own is None or within(own, CLOSED) else (*CLOSED, own)


def may_open(cidr: str, closed: Iterable[str]) -> bool:
    """Whether settings may open a network to jobs: it is inside a closed one and has no link-local address of the node."""
    return within(cidr, closed) and not ipaddress.ip_network(cidr).overlaps(ipaddress.ip_network(LINK_LOCAL))


def within(cidr: str, networks: Iterable[str]) -> bool:
    """Whether an IPv4 network is inside one of `networks`. An IPv6 network never is."""
    network = ipaddress.ip_network(cidr)
    return isinstance(network, ipaddress.IPv4Network) and any(network.subnet_of(ipaddress.IPv4Network(each)) for each in networks)
