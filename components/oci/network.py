"""The VCN of an OKE cluster: nodes, pods and machines in one private subnet, the API endpoint in another."""

from typing import Any

import pulumi
import pulumi_oci as oci

from components.component import Component, Text
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.network import endpoint_subnet, node_subnet


class OkeNetwork(Component[OkeCluster, Text, dict[str, str]]):
    """A new VCN: a private node subnet with a NAT and a service gateway, and an endpoint subnet, public if the endpoint is.

    Its default security list allows no traffic. Only the groups of `OkeSecurity` allow some.
    """

    vcn_id: pulumi.Output[str]
    """Of the new VCN."""
    node_subnet_id: pulumi.Output[str]
    """Regional and private. It is usable once its routes exist."""
    endpoint_subnet_id: pulumi.Output[str]
    """Regional; public only where the endpoint is."""

    def declare(self, name: str, settings: OkeCluster, compartment: Text, tags: dict[str, str]) -> None:
        self._compartment, self._tags = compartment, tags
        cidr, private_endpoint = settings.network.new_cidr, settings.endpoint.private
        # They depend only on the VCN's range, so nothing that is added later changes them. Every pod has an address of the node
        # subnet; between the two the metrics gateway has sixteen addresses, and the rest is free.
        nodes, endpoint = node_subnet(cidr)[0], endpoint_subnet(cidr)
        # Nodes resolve each other by the label; it need not differ from other VCNs'.
        ranges = {"cidr_blocks": [cidr], "dns_label": "gpuci"}
        self._vcn = oci.core.Vcn(f"{name}-vcn", **ranges, **self._named("vcn"), opts=self._below(*self._after))
        # OCI's own default admits SSH from anywhere.
        no_rules: dict[str, Any] = {"ingress_security_rules": [], "egress_security_rules": []}
        closed = no_rules | self._named("closed") | {"manage_default_resource_id": self._vcn.default_security_list_id}
        self._closed = oci.core.DefaultSecurityList(f"{name}-closed", **closed, opts=self._child)
        self.vcn_id = self._vcn.id
        private = self._private_routes()
        public = None if private_endpoint else self._public_routes()
        self.node_subnet_id = self._subnet("nodes", nodes, private, private=True).id
        self.endpoint_subnet_id = self._subnet("endpoint", endpoint, public or private, private=private_endpoint).id

    def _named(self, role: str) -> dict[str, Any]:
        """Compartment, displayed name and tags of every resource."""
        return {"compartment_id": self._compartment, "display_name": f"{self._name}-{role}", "freeform_tags": self._tags}

    def _private_routes(self) -> oci.core.RouteTable:
        """To Oracle's services by the service gateway, which costs nothing; to the internet by NAT."""
        services_id, services_block = oracle_services(parent=self, after=self._vcn)
        nat = oci.core.NatGateway(f"{self._name}-nat", vcn_id=self.vcn_id, **self._named("nat"), opts=self._child)
        name, named, services = f"{self._name}-services", self._named("services"), [{"service_id": services_id}]
        gateway = oci.core.ServiceGateway(name, vcn_id=self.vcn_id, services=services, **named, opts=self._child)
        to_services = _route(services_block, "SERVICE_CIDR_BLOCK", gateway.id)
        return self._routes("private", _route("0.0.0.0/0", "CIDR_BLOCK", nat.id), to_services)

    def _public_routes(self) -> oci.core.RouteTable:
        """A route to the internet only, for the endpoint. The endpoint's group decides who can connect."""
        name, named = f"{self._name}-internet", self._named("internet")
        gateway = oci.core.InternetGateway(name, vcn_id=self.vcn_id, enabled=True, **named, opts=self._child)
        return self._routes("public", _route("0.0.0.0/0", "CIDR_BLOCK", gateway.id))

    def _routes(self, kind: str, *rules: oci.core.RouteTableRouteRuleArgs) -> oci.core.RouteTable:
        name, named = f"{self._name}-{kind}", self._named(kind)
        return oci.core.RouteTable(name, vcn_id=self.vcn_id, route_rules=list(rules), **named, opts=self._child)

    def _subnet(self, kind: str, cidr: str, routes: oci.core.RouteTable, *, private: bool) -> oci.core.Subnet:
        """A regional subnet: it names no availability domain."""
        of = {"vcn_id": self.vcn_id, "cidr_block": cidr, "route_table_id": routes.id, "prohibit_public_ip_on_vnic": private}
        # Nothing starts in it while the default list still admits SSH.
        opts = self._below(self._closed)
        return oci.core.Subnet(f"{self._name}-{kind}", **of, dns_label=kind, **self._named(kind), opts=opts)


def _route(destination: Text, kind: str, gateway: Text) -> oci.core.RouteTableRouteRuleArgs:
    return oci.core.RouteTableRouteRuleArgs(destination=destination, destination_type=kind, network_entity_id=gateway)


def oracle_services(*, parent: pulumi.Resource, after: pulumi.Resource) -> tuple[pulumi.Output[Any], pulumi.Output[Any]]:
    """Id and CIDR label of "All … Services In Oracle Services Network", for routes and security rules.

    Read from the cloud, because only the cloud knows them. The request waits for `after`, so a plan of a new network makes no
    request. None if a simulated cloud lists none, which OCI would reject.
    """
    services = oci.core.get_services_output(
        filters=[oci.core.GetServicesFilterArgs(name="name", values=["All .* Services In Oracle Services Network"], regex=True)],
        opts=pulumi.InvokeOutputOptions(parent=parent, depends_on=[after]),
    ).services
    ocid = services.apply(lambda listed: listed[0].id if listed else None)
    return ocid, services.apply(lambda listed: listed[0].cidr_block if listed else None)
