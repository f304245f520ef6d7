"""private-nodes: nodes and machines have no public IP address.

Judged: the subnets of EKS node groups, Auto Scaling groups and OKE node pools, which must not assign public addresses; launch
templates, EC2 instances and spot requests, OCI instances and instance configurations, which must not request a public address or
get one by default. A pool's dependencies show its subnets, because a subnet's id is unknown before it exists. If a subnet is
given by its id, the rule cannot judge it; a node group of a network that the stack makes has no subnet from outside. No pool is
in a subnet whose route table leads to an internet gateway.
"""

from . import kinds
from .read import SETTLED, Data, Faults, Later, entries, items, line, places, shown, some, text, true, walk
from .rule import Resource, Stack, StackRule, apart, facts, said

_SUBNETS = kinds.fields("subnets")
_EC2 = (kinds.EC2_INSTANCE, kinds.SPOT_REQUEST)
_VNIC_FIELDS = kinds.fields("vnic")
_SUBNET_KINDS = (kinds.AWS_SUBNET, kinds.OCI_SUBNET)
GATEWAY, ROUTES, ASSOCIATION = (
    f"aws:ec2/{kind[0].lower()}{kind[1:]}:{kind}" for kind in ("InternetGateway", "RouteTable", "RouteTableAssociation")
)
_PUBLIC = "associatePublicIpAddress"


def _faults(resource: Resource, stack: Stack, later: Later) -> Faults:
    token, props = resource.type, resource.props
    if token in _SUBNETS:
        for subnet in _of(resource, field := _SUBNETS[token]):
            yield from _subnet(field, subnet, later)
            if _is_public(subnet, stack):
                yield f"{field}: {line(subnet.name)} has a route to an internet gateway; use subnets behind a NAT gateway"
        if token == kinds.EKS_NODE_GROUP:
            yield from _outside(resource, stack, later)
    elif token == kinds.LAUNCH_TEMPLATE:
        for path, interface in entries(props, "networkInterfaces", later):
            yield from _ec2(f"{path}.", interface, later)
    elif token in _EC2:
        yield from _ec2("", props, later)
        with later:
            # If the machine does not set it, the subnet decides.
            if walk(props, _PUBLIC) is None:
                for subnet in _of(resource, "subnetId"):
                    yield from _subnet("subnetId", subnet, later)
    elif token in _VNIC_FIELDS:
        for prefix, body in kinds.bodies(token, props, later):
            yield from _vnic(prefix, body, _of(resource, _VNIC_FIELDS[token]), later)


def _is_public(subnet: Resource, stack: Stack) -> bool:
    tables = [
        table
        for association in stack.of(ASSOCIATION)
        if subnet in association.property_dependencies.get("subnetId", ())
        for table in association.property_dependencies.get("routeTableId", ())
    ]
    literal = (text(way) for table in tables for _, way in places(table.props, "routes.[].gatewayId", Later()))
    made = (target.type == GATEWAY for table in tables for target in table.property_dependencies.get("routes", ()))
    return any(made) or any(way.startswith("igw-") for way in literal)


def _outside(group: Resource, stack: Stack, later: Later) -> Faults:
    """Subnets of a node group that come from none of the network that the stack makes for it, by the same provider."""
    made = any(subnet.provider.urn == group.provider.urn for subnet in stack.of(kinds.AWS_SUBNET))
    if made and not _of(group, "subnetIds"):
        for index, item in items(later.walk(group.props, "subnetIds"), later):
            yield f"subnetIds[{index}] is {shown(item)}, not one of the cluster's network; take a private subnet of the stack"


def _of(resource: Resource, field: str) -> list[Resource]:
    """The subnets of the stack that a property depends on."""
    return [subnet for subnet in resource.property_dependencies.get(field, ()) if subnet.type in _SUBNET_KINDS]


def _subnet(field: str, subnet: Resource, later: Later) -> Faults:
    with later:
        if subnet.type == kinds.AWS_SUBNET and true(walk(subnet.props, "mapPublicIpOnLaunch")):
            yield said("public_subnet", field=field, subnet=subnet)
        elif subnet.type == kinds.OCI_SUBNET and not _closed(subnet):
            yield said("public_oci_subnet", field=field, subnet=subnet)


def _closed(subnet: Resource) -> bool:
    """Whether a subnet of OCI has no public addresses: either flag says so (OCI API reference, CreateSubnetDetails)."""
    flags = ("prohibitPublicIpOnVnic", "prohibitInternetIngress")
    return some(lambda _: flags, lambda flag: true(walk(subnet.props, flag)), SETTLED)


def _ec2(prefix: str, holder: Data, later: Later) -> Faults:
    if true(public := later.walk(holder, _PUBLIC)):
        yield f"{prefix}{_PUBLIC} is {shown(public)}: a node needs no public address; write false"


def _vnic(prefix: str, details: Data, subnets: list[Resource], later: Later) -> Faults:
    with later:
        public = walk(details, "createVnicDetails", "assignPublicIp")
        # OCI assigns a public address by default if the subnet allows one. Terraform's provider takes text.
        if true(public) or (public is None and not (subnets and all(map(_closed, subnets)))):
            yield f"{prefix}createVnicDetails.assignPublicIp is {shown(public)}: a machine needs no public address; write false"


_TYPES = frozenset((*_SUBNETS, *_EC2, *_VNIC_FIELDS, *_SUBNET_KINDS, kinds.LAUNCH_TEMPLATE, GATEWAY, ROUTES, ASSOCIATION))
RULE = StackRule(**facts(__name__), types=_TYPES, check=apart(_faults))
