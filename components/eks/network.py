"""The VPC of an EKS cluster: nodes in private subnets, a way out through NAT gateways."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component
from fleet.providers.eks.cluster import Network

_SPLIT = 3
"""A VPC is cut in eight: seven private subnets by zone letter, the eighth for the small public ones. So a subnet's range depends
on its own zone alone. The zones stay those of the cluster's creation, because EKS accepts no others (user guide,
network-reqs)."""


@dataclass(frozen=True, slots=True)
class EksNetworkArgs:
    """`zones` are zone names such as us-west-2a."""

    region: str
    zones: tuple[str, ...]
    network: Network


class EksNetwork(Component[EksNetworkArgs]):
    """A new VPC with a private and a public subnet a zone."""

    vpc_id: pulumi.Output[str]
    """Of the new VPC."""
    private_subnet_ids: list[pulumi.Output[str]]
    """One a zone, in the order of the zones, usable once their route out stands."""

    def declare(self, name: str, args: EksNetworkArgs) -> dict[str, Any]:
        child = pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.network.new_cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": name},
            opts=child,
        )
        gateway = aws.ec2.InternetGateway(f"{name}-internet", vpc_id=vpc.id, tags={"Name": name}, opts=child)
        public_routes = aws.ec2.RouteTable(
            f"{name}-public",
            vpc_id=vpc.id,
            routes=[aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", gateway_id=gateway.id)],
            tags={"Name": f"{name}-public"},
            opts=child,
        )
        public = {zone: self._subnet(name, "public", vpc, zone, _public_cidr(args.network.new_cidr, zone)) for zone in args.zones}
        ways_out = [
            aws.ec2.RouteTableAssociation(
                f"{name}-public-{zone}", subnet_id=subnet.id, route_table_id=public_routes.id, opts=child
            )
            for zone, subnet in public.items()
        ]
        gateways = [
            self._nat(name, zone, public[zone], [gateway, *ways_out])
            for zone in args.zones[: args.network.nat_count(len(args.zones))]
        ]
        tables: list[pulumi.Output[str]] = []
        self.private_subnet_ids = []
        for index, zone in enumerate(args.zones):
            private = self._subnet(name, "private", vpc, zone, _private_cidr(args.network.new_cidr, zone))
            table = aws.ec2.RouteTable(
                f"{name}-private-{zone}",
                vpc_id=vpc.id,
                routes=[aws.ec2.RouteTableRouteArgs(cidr_block="0.0.0.0/0", nat_gateway_id=gateways[index % len(gateways)].id)],
                tags={"Name": f"{name}-private-{zone}"},
                opts=child,
            )
            route = aws.ec2.RouteTableAssociation(
                f"{name}-private-{zone}", subnet_id=private.id, route_table_id=table.id, opts=child
            )
            tables.append(table.id)
            # A node that starts before its route stands cannot join: the id carries the association.
            self.private_subnet_ids.append(pulumi.Output.all(private.id, route.id).apply(_first))
        aws.ec2.VpcEndpoint(
            # Image layers in ECR come from S3: free through the gateway endpoint, paid by the GB through NAT.
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{args.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=tables,
            tags={"Name": f"{name}-s3"},
            opts=child,
        )
        self.vpc_id = vpc.id
        return {"vpcId": self.vpc_id, "privateSubnetIds": self.private_subnet_ids}

    def _subnet(self, name: str, kind: str, vpc: aws.ec2.Vpc, zone: str, cidr: str) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            f"{name}-{kind}-{zone}",
            vpc_id=vpc.id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags={"Name": f"{name}-{kind}-{zone}"},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _nat(self, name: str, zone: str, subnet: aws.ec2.Subnet, after: list[pulumi.Resource]) -> aws.ec2.NatGateway:
        """A NAT gateway that goes before its own way out does: on destroy the sets still sign off at GitHub."""
        address = aws.ec2.Eip(
            f"{name}-nat-{zone}", domain="vpc", tags={"Name": f"{name}-nat-{zone}"}, opts=pulumi.ResourceOptions(parent=self)
        )
        return aws.ec2.NatGateway(
            f"{name}-nat-{zone}",
            subnet_id=subnet.id,
            allocation_id=address.id,
            tags={"Name": f"{name}-nat-{zone}"},
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )


def _first(values: list[str]) -> str:
    return values[0]


def _blocks(cidr: str) -> list[ipaddress.IPv4Network]:
    return list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=_SPLIT))


def _private_cidr(cidr: str, zone: str) -> str:
    return str(_blocks(cidr)[_letter(zone)])


def _public_cidr(cidr: str, zone: str) -> str:
    return str(list(_blocks(cidr)[-1].subnets(prefixlen_diff=_SPLIT))[_letter(zone)])


def _letter(zone: str) -> int:
    return ord(zone[-1]) - ord("a")
