"""The VPC of an EKS cluster: nodes in private subnets, internet access through NAT gateways."""

import ipaddress
from collections.abc import Collection
from operator import itemgetter
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Component, Text
from fleet.providers.eks.cluster import EksCluster

_SPLIT = 3
"""A VPC is split into eight ranges: seven for private subnets by zone letter, the eighth for all public subnets. So a subnet's
range depends only on its own zone, and a zone can be added or removed without a change of the others."""


class EksNetwork(Component[EksCluster, Collection[str]]):
    """A new VPC with a private and a public subnet per zone, also for zones that the settings left and that still have nodes.

    A single NAT gateway is in the first of its network's zones.
    """

    vpc_id: pulumi.Output[str]
    """Id of the new VPC."""
    private_subnets: dict[str, pulumi.Output[str]]
    """Subnet ids by zone. Each depends on its route to the internet."""

    def declare(self, name: str, settings: EksCluster, live_zones: Collection[str]) -> dict[str, Any]:
        network, zones = settings.network, tuple(dict.fromkeys((*settings.network_zones, *live_zones)))
        dns = {"enable_dns_hostnames": True, "enable_dns_support": True}
        opts = self._below(*self._after)
        vpc = aws.ec2.Vpc(f"{name}-vpc", cidr_block=network.new_cidr, **dns, tags={"Name": name}, opts=opts)
        gateway = aws.ec2.InternetGateway(f"{name}-internet", vpc_id=vpc.id, tags={"Name": name}, opts=self._child)
        public_routes = self._routes("public", vpc, gateway_id=gateway.id)
        cidrs = {zone: _cidrs(network.new_cidr, zone) for zone in zones}
        public = {zone: self._subnet("public", vpc, zone, cidrs[zone][0]) for zone in zones}
        access = [self._association(f"public-{zone}", subnet, public_routes) for zone, subnet in public.items()]
        gateways = [self._nat(zone, public[zone], [gateway, *access]) for zone in zones[: network.nat_count(len(zones))]]
        tables: dict[str, pulumi.Output[str]] = {}
        self.private_subnets = {}
        for index, zone in enumerate(zones):
            private = self._subnet("private", vpc, zone, cidrs[zone][1])
            table = self._routes(f"private-{zone}", vpc, nat_gateway_id=gateways[index % len(gateways)].id)
            route = self._association(f"private-{zone}", private, table)
            tables[zone] = table.id
            # A node that starts before its route exists cannot join, so the id depends on the association.
            self.private_subnets[zone] = pulumi.Output.all(private.id, route.id).apply(itemgetter(0))
        # ECR stores image layers in S3, which is free through the gateway endpoint but costs per GB through NAT.
        of: dict[str, Any] = {"service_name": f"com.amazonaws.{settings.region}.s3", "vpc_endpoint_type": "Gateway"}
        of |= {"route_table_ids": [tables[zone] for zone in sorted(tables)], "tags": {"Name": f"{name}-s3"}}
        aws.ec2.VpcEndpoint(f"{name}-s3", vpc_id=vpc.id, **of, opts=self._child)
        self.vpc_id = vpc.id
        return {"vpcId": self.vpc_id, "privateSubnets": self.private_subnets}

    def _subnet(self, kind: str, vpc: aws.ec2.Vpc, zone: str, cidr: str) -> aws.ec2.Subnet:
        name = f"{self._name}-{kind}-{zone}"
        place = {"vpc_id": vpc.id, "availability_zone": zone, "cidr_block": cidr}
        return aws.ec2.Subnet(name, **place, map_public_ip_on_launch=False, tags={"Name": name}, opts=self._child)

    def _routes(self, role: str, vpc: aws.ec2.Vpc, **target: Text) -> aws.ec2.RouteTable:
        """A route table whose only route leads to the internet, through a gateway."""
        name, routes = f"{self._name}-{role}", [{"cidr_block": "0.0.0.0/0", **target}]
        return aws.ec2.RouteTable(name, vpc_id=vpc.id, routes=routes, tags={"Name": name}, opts=self._child)

    def _association(self, role: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> aws.ec2.RouteTableAssociation:
        opts = self._child
        return aws.ec2.RouteTableAssociation(f"{self._name}-{role}", subnet_id=subnet.id, route_table_id=table.id, opts=opts)

    def _nat(self, zone: str, subnet: aws.ec2.Subnet, after: list[pulumi.Resource]) -> aws.ec2.NatGateway:
        """A NAT gateway, deleted before its own routes, so that runner sets can still sign off at GitHub on destroy."""
        name = f"{self._name}-nat-{zone}"
        address = aws.ec2.Eip(name, domain="vpc", tags={"Name": name}, opts=self._child)
        opts = self._below(*after)
        return aws.ec2.NatGateway(name, subnet_id=subnet.id, allocation_id=address.id, tags={"Name": name}, opts=opts)


def _cidrs(cidr: str, zone: str) -> tuple[str, str]:
    """The ranges of a zone's public and private subnets in a VPC."""
    blocks = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=_SPLIT))
    letter = ord(zone[-1]) - ord("a")
    return str(list(blocks[-1].subnets(prefixlen_diff=_SPLIT))[letter]), str(blocks[letter])
