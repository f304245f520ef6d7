"""Who reaches a cluster's API server."""

import ipaddress
from typing import Annotated, Literal

from fleet.settings.model import Cidr, Model
from fleet.settings.refusals import limited, refusal, refuse, refuse_if, refuses

_WIDEST = {4: 8, 6: 32}
"""Shortest allowed prefix of a public network, by IP version. No single organization owns a larger one."""
_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))


def _public_cidr(cidr: str) -> None:
    network = ipaddress.ip_network(cidr)
    refuse(open_endpoint=network.prefixlen < _WIDEST[network.version])
    refuse(endpoint_family=not isinstance(network, ipaddress.IPv4Network) or any(map(network.overlaps, _PRIVATE)))


def _bounded(cidr: str) -> None:
    network = ipaddress.ip_network(cidr)
    refuse(open_port=network.prefixlen < _WIDEST[network.version])


BoundedCidr = Annotated[Cidr, refuses(_bounded)]
"""A network of clients that may use a port of nodes, none as wide as the internet."""


class Endpoint(Model):
    """Who can reach the API server: the listed public networks, or only the VPC."""

    public_cidrs: Annotated[
        tuple[Annotated[Cidr, refuses(_public_cidr), limited("eks:index:Cluster", "publicAccessCidrs.[]")], ...],
        limited("eks:index:Cluster", "publicAccessCidrs", "once"),
    ] = ()
    """Public networks that reach the Kubernetes API from the internet, on EKS at most 40. Give this or `private: true`.
    0.0.0.0/0 and reserved addresses, such as loopback, are not allowed. Mark: first."""
    private: bool = False
    """Whether only the cluster's own network reaches the Kubernetes API. It needs `reachableFrom`. Mark: first."""
    reachable_from: Literal["vpc-agent", "vpn"] | None = None
    """How `pulumi up` reaches a private endpoint: from an agent inside the VPC, or by VPN. Required with `private: true`."""
    private_cidrs: tuple[Cidr, ...] = ()
    """Networks that may reach a private endpoint. Default: the new VPC itself."""

    @property
    def reserved_cidrs(self) -> tuple[str, ...]:
        """Reserved networks in `publicCidrs`: example values such as 203.0.113.0/24."""
        return tuple(cidr for cidr in self.public_cidrs if not ipaddress.ip_network(cidr).is_global)

    def private_sources(self, own: str | None) -> tuple[str, ...]:
        """Networks that may reach a private endpoint: the listed ones, or else `own`, the new network of the cluster."""
        return self.private_cidrs or ((own,) if own is not None else ()) if self.private else ()

    @refusal
    def _rules(self) -> None:
        """Refuse an endpoint that is both public and private or neither, and keys that belong to the other kind."""
        refuse(endpoint=self.private == bool(self.public_cidrs))
        refuse(endpoint_reach=self.private and self.reachable_from is None)
        for key, value in (("reachableFrom", self.reachable_from), ("privateCidrs", self.private_cidrs)):
            refuse_if("endpoint_reach__public", value and not self.private, key=key)
