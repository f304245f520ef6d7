"""private-nodes: subnets by what pools depend on, and addresses that machines ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies.rules.kinds import AUTO_SCALING_GROUP, AWS_SUBNET, OCI_SUBNET, SPOT_REQUEST
from policies.rules.private_nodes import ASSOCIATION, GATEWAY, ROUTES, RULE
from tests.policies.cases import Member, StackCase
from tests.policies.fixtures import EC2_INSTANCE, LAUNCH_TEMPLATE, NODE_GROUP, OCI_CONFIGURATION, OCI_INSTANCE, OKE_POOL
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack
from tests.policies.suite import Suite

WAY_IN = "needs no public address; write false"
PRIVATE = Member(AWS_SUBNET, "private-a", {"cidrBlock": "10.0.0.0/24"})
PUBLIC = Member(AWS_SUBNET, "public-a", {"mapPublicIpOnLaunch": True})
CLOSED = Member(OCI_SUBNET, "nodes", {"prohibitPublicIpOnVnic": True})
ALSO_CLOSED = Member(OCI_SUBNET, "nodes", {"prohibitInternetIngress": True})
ALSO_OPEN = Member(OCI_SUBNET, "open", {"cidrBlock": "10.0.0.0/24"})
NO_ADDRESS = {"createVnicDetails": {"assignPublicIp": "false"}}


def group(*subnets: str) -> Member:
    return Member(NODE_GROUP, "nodes-group", {"clusterName": "usw2"}, property_depends={"subnetIds": subnets})


def pool(subnet: str) -> Member:
    return Member(OKE_POOL, "pool", {"nodeShape": "VM.GPU.A10.1"}, property_depends={"nodeConfigDetails": (subnet,)})


def box(subnet: str, token: str = EC2_INSTANCE, **props: Any) -> Member:
    return Member(token, "box", {"instanceType": "g5.xlarge", **props}, property_depends={"subnetId": (subnet,)})


def vm(subnet: str) -> Member:
    return Member(OCI_INSTANCE, "vm", {"shape": "VM.GPU.A10.1"}, property_depends={"createVnicDetails": (subnet,)})


def scaling_group(subnet: str) -> Member:
    return Member(AUTO_SCALING_GROUP, "asg", {"maxSize": 1}, property_depends={"vpcZoneIdentifiers": (subnet,)})


NETWORK = (
    Member(GATEWAY, "internet", {}),
    Member(AWS_SUBNET, "routed", {"cidrBlock": "10.0.1.0/24"}),
    Member(ROUTES, "public", {"routes": [{"cidrBlock": "0.0.0.0/0"}]}, property_depends={"routes": ("internet",)}),
    Member(ROUTES, "private", {"routes": [{"cidrBlock": "0.0.0.0/0"}]}),
    Member(ASSOCIATION, "open", {}, property_depends={"subnetId": ("routed",), "routeTableId": ("public",)}),
    Member(ASSOCIATION, "closed", {}, property_depends={"subnetId": ("private-a",), "routeTableId": ("private",)}),
)
ROUTED = "subnetIds: routed has a route to an internet gateway; use subnets behind a NAT gateway"


def group_of(ids: list[str], *subnets: str) -> Member:
    depends = {"subnetIds": subnets} if subnets else {}
    return Member(NODE_GROUP, "nodes-group", {"clusterName": "usw2", "subnetIds": ids}, property_depends=depends)


OUTSIDE = 'subnetIds[0] is "subnet-1", not one of the cluster\'s network; take a private subnet of the stack'


def gives(field: str) -> str:
    return f"{field}: public-a gives every node a public address (mapPublicIpOnLaunch is true); use subnets that do not"


def alone(token: str, props: dict[str, Any], message: str = "") -> StackCase:
    return StackCase((Member(token, "one", props),), {message: "one"} if message else {})


SUITE = Suite(
    RULE,
    passing=(
        StackCase((PRIVATE, *NETWORK, group("private-a"))),
        StackCase((group_of(["subnet-1"]),)),
        StackCase((PRIVATE, PUBLIC, group("private-a"))),
        StackCase((group(),)),
        StackCase((CLOSED, pool("nodes"))),
        StackCase((ALSO_CLOSED, pool("nodes"), vm("nodes"))),
        StackCase((PRIVATE, box("private-a"), box("private-a", SPOT_REQUEST), scaling_group("private-a"))),
        StackCase((PUBLIC, box("public-a", associatePublicIpAddress=False))),
        alone(LAUNCH_TEMPLATE, {"networkInterfaces": [{"associatePublicIpAddress": "false"}]}),
        alone(LAUNCH_TEMPLATE, {}),
        alone(EC2_INSTANCE, {"associatePublicIpAddress": False}),
        alone(OCI_INSTANCE, NO_ADDRESS),
        alone(OCI_CONFIGURATION, {"instanceDetails": {"launchDetails": NO_ADDRESS}}),
        alone(OCI_CONFIGURATION, {"instanceDetails": {"options": [{"launchDetails": NO_ADDRESS}]}}),
    ),
    violating=(
        StackCase((PRIVATE, *NETWORK, group("private-a", "routed")), {ROUTED: "nodes-group"}),
        StackCase((PRIVATE, group_of(["subnet-1"])), {OUTSIDE: "nodes-group"}),
        StackCase(
            (PRIVATE, PUBLIC, group("private-a", "public-a")),
            {
                "subnetIds: public-a gives every node a public address (mapPublicIpOnLaunch is true); "
                "use subnets that do not": "nodes-group"
            },
        ),
        StackCase((PUBLIC, box("public-a")), {gives("subnetId"): "box"}),
        StackCase((PUBLIC, box("public-a", SPOT_REQUEST)), {gives("subnetId"): "box"}),
        StackCase((PUBLIC, scaling_group("public-a")), {gives("vpcZoneIdentifiers"): "asg"}),
        StackCase((ALSO_OPEN, vm("open")), {f"createVnicDetails.assignPublicIp is not set: a machine {WAY_IN}": "vm"}),
        StackCase(
            (ALSO_OPEN, pool("open")),
            {
                "nodeConfigDetails: subnet open lets nodes have a public address; "
                "set prohibitPublicIpOnVnic of the subnet, or use another": "pool"
            },
        ),
        alone(
            LAUNCH_TEMPLATE,
            {"networkInterfaces": [{"associatePublicIpAddress": "true"}]},
            f'networkInterfaces[0].associatePublicIpAddress is "true": a node {WAY_IN}',
        ),
        alone(EC2_INSTANCE, {"associatePublicIpAddress": True}, f"associatePublicIpAddress is true: a node {WAY_IN}"),
        alone(OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}, f"createVnicDetails.assignPublicIp is not set: a machine {WAY_IN}"),
        alone(
            OCI_CONFIGURATION,
            {"instanceDetails": {"launchDetails": {"createVnicDetails": {"assignPublicIp": "true"}}}},
            f'instanceDetails.launchDetails.createVnicDetails.assignPublicIp is "true": a machine {WAY_IN}',
        ),
        alone(
            OCI_CONFIGURATION,
            {"instanceDetails": {"options": [{"launchDetails": NO_ADDRESS}, {}]}},
            f"instanceDetails.options[1].launchDetails.createVnicDetails.assignPublicIp is not set: a machine {WAY_IN}",
        ),
    ),
)


def test_a_gateway_of_others_is_one_to_the_internet_too() -> None:
    (*most, private, opened, closed) = NETWORK
    through = replace(private, props={"routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": "igw-0123456789abcdef0"}]})
    (told,) = judge_stack(RULE, [PRIVATE, *most, through, opened, closed, group("private-a")]).messages
    assert told == ROUTED.replace("routed", "private-a", 1)


def test_the_subnets_of_another_network_are_not_this_clusters() -> None:
    elsewhere = replace(PRIVATE, name="other", provider={"region": "us-east-1"})
    assert judge_stack(RULE, [elsewhere, group_of(["subnet-1"])]) == CLEAN
    assert judge_stack(RULE, [PRIVATE, group_of(["subnet-1"], "private-a")]) == CLEAN, "an id that the subnet has got"
    assert judge_stack(RULE, [PRIVATE, group_of([UNKNOWN], "private-a")]) == CLEAN
    assert judge_stack(RULE, [PRIVATE, group_of([UNKNOWN])]).unknown == "subnetIds[0]"
