"""Who may talk to whom in the VCN of an OKE cluster: security groups, and no security list beside them."""

import ipaddress
from typing import Any, TypeAlias

import pulumi
import pulumi_oci as oci

from components.component import Component, Parent, Resources, Tags, Text
from components.oci.network import oracle_services
from fleet.providers.oke.cluster import OkeCluster
from fleet.settings.egress import INTERNET

ALL, ICMP, TCP, UDP = "all", "1", "6", "17"
"""Protocols as OCI's security rules spell them."""
Group: TypeAlias = oci.core.NetworkSecurityGroup
Rule: TypeAlias = oci.core.NetworkSecurityGroupSecurityRule
End = tuple[str, str]
GROUP, CIDR, SERVICE = "NETWORK_SECURITY_GROUP", "CIDR_BLOCK", "SERVICE_CIDR_BLOCK"
IN, OUT = ("INGRESS", "source"), ("EGRESS", "destination")
"""The direction of a rule, and its argument for the other end."""
_MTU = {"icmp_options": {"type": 3, "code": 4}}
"""Fragmentation needed."""


def ports(first: int, last: int, end: str = "destination") -> dict[str, Any]:
    """TCP or UDP ports that a rule admits at one end of a connection."""
    return {f"{end}_port_range": {"min": first, "max": last}}


_API, _CHANNEL = ({"tcp_options": ports(port, port)} for port in (6443, 12250))
"""Ports of the Kubernetes API and of OKE's own channel, which also serves workload identity."""


def security_group(name: str, compartment: Text, vcn_id: Text, tags: Tags, after: Resources = (), *, parent: Parent) -> Group:
    """A network security group without rules, so nothing is allowed yet."""
    opts = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
    place = {"compartment_id": compartment, "vcn_id": vcn_id}
    return Group(name, **place, display_name=name, freeform_tags=dict(tags), opts=opts)


class OkeSecurity(Component[OkeCluster, Text, Text, bool, Tags]):
    """Groups for the API endpoint, for nodes with their pods, and for machines that run jobs. No group allows SSH.

    Rules of endpoint and nodes: docs.oracle.com, example network configurations, VCN-native pods; pods share the nodes' group.
    Machines reach the internet only. A rule can only allow, so the allowed blocks are all addresses outside the closed networks.
    DNS, time, metadata and iSCSI disks stay reachable: OCI enforces no rule for 169.254.0.0/16 (docs.oracle.com, security rules).
    `machines` says whether machines that run jobs need a group.
    """

    api_id: pulumi.Output[str]
    """Group of the API endpoint."""
    workers_id: pulumi.Output[str]
    """Group of nodes and pods."""
    machines_id: pulumi.Output[str] | None
    """Group of machines that run jobs; None where the cluster has none."""
    rules: Resources
    """These must exist before a node can join."""
    machine_rules: Resources
    """These must exist before a machine can download anything."""

    def declare(self, name: str, settings: OkeCluster, compartment: Text, vcn_id: Text, machines: bool, tags: Tags) -> None:
        def group(role: str) -> Group:
            return security_group(f"{name}-{role}", compartment, vcn_id, tags, self._after, parent=self)

        api, workers = group("api"), group("workers")
        self.api_id, self.workers_id = api.id, workers.id
        self.rules = (*self._api_rules(api, settings), *self._worker_rules(workers.id))
        self.machines_id, self.machine_rules = None, ()
        if machines:
            self.machines_id = group("machines").id
            self.machine_rules = [
                rule(f"{name}-machines-to-{block}", OUT, self.machines_id, block, ALL, "Public addresses", CIDR, parent=self)
                for block in everything_but(*settings.closed_networks)
            ]

    def _api_rules(self, api: Group, settings: OkeCluster) -> list[pulumi.Resource]:
        name, workers = f"{self._name}-api", self.workers_id
        _, services = oracle_services(parent=self, after=api)
        deployers = "Kubernetes API for those who deploy"
        # The public networks, or for a private endpoint its sources, by default the new VCN.
        sources = settings.endpoint.public_cidrs or settings.endpoint.private_sources(settings.own_cidr)
        return [
            rule(f"{name}-from-workers", IN, api.id, workers, TCP, "Kubernetes API", parent=self, **_API),
            rule(f"{name}-from-workers-oke", IN, api.id, workers, TCP, "OKE's channel", parent=self, **_CHANNEL),
            rule(f"{name}-from-workers-mtu", IN, api.id, workers, ICMP, "Path discovery", parent=self, **_MTU),
            *(rule(f"{name}-from-{one}", IN, api.id, one, TCP, deployers, CIDR, parent=self, **_API) for one in sources),
            rule(f"{name}-to-workers", OUT, api.id, workers, ALL, "Kubelets and webhooks", parent=self),
            rule(f"{name}-to-services", OUT, api.id, services, TCP, "OKE", SERVICE, parent=self),
            rule(f"{name}-to-services-mtu", OUT, api.id, services, ICMP, "Path discovery", SERVICE, parent=self, **_MTU),
        ]

    def _worker_rules(self, workers: pulumi.Output[str]) -> list[pulumi.Resource]:
        name, anywhere = f"{self._name}-workers", "Images, GitHub and Oracle's services"
        return [
            rule(f"{name}-from-workers", IN, workers, workers, ALL, "Nodes and pods among themselves", parent=self),
            rule(f"{name}-from-api", IN, workers, self.api_id, ALL, "Kubelets and webhooks", parent=self),
            rule(f"{name}-mtu", IN, workers, INTERNET, ICMP, "Path discovery", CIDR, parent=self, **_MTU),
            rule(f"{name}-to-anywhere", OUT, workers, INTERNET, ALL, anywhere, CIDR, parent=self),
        ]


def rule(
    name: str, end: End, group: Text, other: Any, protocol: str, why: str, kind: str = GROUP, /, *, parent: Parent, **ports: Any
) -> Rule:
    """A stateful rule of a group: `end` says whether traffic comes from `other` or goes there, and `kind` what `other` is."""
    (direction, key), opts = end, pulumi.ResourceOptions(parent=parent)
    about: dict[str, Any] = {"direction": direction, "protocol": protocol, "stateless": False, "description": why}
    about |= {key: other, f"{key}_type": kind}
    return Rule(name, network_security_group_id=group, **about, **ports, opts=opts)


def everything_but(*left_out: str) -> list[str]:
    """The IPv4 addresses outside some networks, as few blocks as there can be. A group holds 120 rules."""
    blocks = [ipaddress.IPv4Network(INTERNET)]
    for network in map(ipaddress.IPv4Network, left_out):
        blocks = [part for block in blocks for part in _without(block, network)]
    return [str(block) for block in sorted(ipaddress.collapse_addresses(blocks))]


def _without(block: ipaddress.IPv4Network, network: ipaddress.IPv4Network) -> list[ipaddress.IPv4Network]:
    rest = list(block.address_exclude(network)) if network.subnet_of(block) else [block]
    return [] if block.subnet_of(network) else rest
