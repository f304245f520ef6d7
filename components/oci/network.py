"""The VCN of an OKE cluster: nodes, pods and machines in one private subnet, the API endpoint in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component
from components.oci.services import oracle_services
from fleet.providers.oke.addresses import endpoint_subnet, node_subnet


@dataclass(frozen=True, slots=True)
class OkeNetworkArgs:
    """`cidr` is the VCN's; `private_endpoint` says whether the API endpoint stays off the internet."""

    compartment: pulumi.Input[str]
    cidr: str
    private_endpoint: bool
    tags: dict[str, str]


class OkeNetwork(Component[OkeNetworkArgs]):
    """A new VCN: a private node subnet with a NAT and a service gateway, and an endpoint subnet, public if the endpoint is.

    Its default security list allows no traffic. Only the groups of `OkeSecurity` allow some.
    """

    vcn_id: pulumi.Output[str]
    """Of the new VCN."""
    node_subnet_id: pulumi.Output[str]
    """Regional and private. It is usable once its routes exist."""
    endpoint_subnet_id: pulumi.Output[str]
    """Regional; public only where the endpoint is."""

    def declare(self, name: str, args: OkeNetworkArgs) -> dict[str, Any]:
        child = pulumi.ResourceOptions(parent=self)
        nodes, endpoint = subnet_cidrs(args.cidr)
        vcn = oci.core.Vcn(
            f"{name}-vcn",
            compartment_id=args.compartment,
            cidr_blocks=[args.cidr],
            display_name=f"{name}-vcn",
            # Nodes resolve each other by it; it need not differ from other VCNs'.
            dns_label="gpuci",
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=self._after),
        )
        # OCI's own default admits SSH from anywhere.
        closed = oci.core.DefaultSecurityList(
            f"{name}-closed",
            compartment_id=args.compartment,
            manage_default_resource_id=vcn.default_security_list_id,
            display_name=f"{name}-closed",
            ingress_security_rules=[],
            egress_security_rules=[],
            freeform_tags=args.tags,
            opts=child,
        )
        private = self._private_routes(vcn)
        public = None if args.private_endpoint else self._public_routes(vcn)
        self.vcn_id = vcn.id
        self.node_subnet_id = self._subnet("nodes", vcn, nodes, private, closed, private=True).id
        self.endpoint_subnet_id = self._subnet(
            "endpoint", vcn, endpoint, public or private, closed, private=args.private_endpoint
        ).id
        return {"vcnId": self.vcn_id, "nodeSubnetId": self.node_subnet_id, "endpointSubnetId": self.endpoint_subnet_id}

    def _private_routes(self, vcn: oci.core.Vcn) -> oci.core.RouteTable:
        """To Oracle's services by the service gateway, which costs nothing; to the internet by NAT."""
        child = pulumi.ResourceOptions(parent=self)
        services = oracle_services(parent=self, after=vcn)
        nat = oci.core.NatGateway(
            f"{self._name}-nat",
            compartment_id=self._args.compartment,
            vcn_id=vcn.id,
            display_name=f"{self._name}-nat",
            freeform_tags=self._args.tags,
            opts=child,
        )
        gateway = oci.core.ServiceGateway(
            f"{self._name}-services",
            compartment_id=self._args.compartment,
            vcn_id=vcn.id,
            services=[oci.core.ServiceGatewayServiceArgs(service_id=services.id)],
            display_name=f"{self._name}-services",
            freeform_tags=self._args.tags,
            opts=child,
        )
        return self._routes(
            "private",
            vcn,
            oci.core.RouteTableRouteRuleArgs(destination="0.0.0.0/0", destination_type="CIDR_BLOCK", network_entity_id=nat.id),
            oci.core.RouteTableRouteRuleArgs(
                destination=services.cidr_block, destination_type="SERVICE_CIDR_BLOCK", network_entity_id=gateway.id
            ),
        )

    def _public_routes(self, vcn: oci.core.Vcn) -> oci.core.RouteTable:
        """A route to the internet only, for the endpoint. The endpoint's group decides who can connect."""
        gateway = oci.core.InternetGateway(
            f"{self._name}-internet",
            compartment_id=self._args.compartment,
            vcn_id=vcn.id,
            enabled=True,
            display_name=f"{self._name}-internet",
            freeform_tags=self._args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return self._routes(
            "public",
            vcn,
            oci.core.RouteTableRouteRuleArgs(
                destination="0.0.0.0/0", destination_type="CIDR_BLOCK", network_entity_id=gateway.id
            ),
        )

    def _routes(self, kind: str, vcn: oci.core.Vcn, *rules: oci.core.RouteTableRouteRuleArgs) -> oci.core.RouteTable:
        return oci.core.RouteTable(
            f"{self._name}-{kind}",
            compartment_id=self._args.compartment,
            vcn_id=vcn.id,
            display_name=f"{self._name}-{kind}",
            route_rules=list(rules),
            freeform_tags=self._args.tags,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _subnet(
        self,
        kind: str,
        vcn: oci.core.Vcn,
        cidr: str,
        routes: oci.core.RouteTable,
        closed: oci.core.DefaultSecurityList,
        *,
        private: bool,
    ) -> oci.core.Subnet:
        """A regional subnet: it names no availability domain."""
        return oci.core.Subnet(
            f"{self._name}-{kind}",
            compartment_id=self._args.compartment,
            vcn_id=vcn.id,
            cidr_block=cidr,
            dns_label=kind,
            prohibit_public_ip_on_vnic=private,
            route_table_id=routes.id,
            display_name=f"{self._name}-{kind}",
            freeform_tags=self._args.tags,
            # Nothing starts in it while the default list still admits SSH.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[closed]),
        )


def subnet_cidrs(cidr: str) -> tuple[str, str]:
    """Ranges of the node and of the endpoint subnet: the first half, and the last sixteen addresses.

    They depend only on the VCN's range, so nothing that is added later changes them. Every pod has an address of the node
    subnet; between the two the metrics gateway has sixteen addresses, and the rest is free.
    """
    return node_subnet(cidr)[0], endpoint_subnet(cidr)
