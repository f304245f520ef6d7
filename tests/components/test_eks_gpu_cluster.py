"""Network, control plane, access, add-ons and the autoscaler's rights."""

from __future__ import annotations

import copy
import ipaddress
import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pytest

from components.context import Context
from components.eks.autoscaler import autoscaler_rights
from components.eks.eks_gpu_cluster import EksGpuCluster
from components.eks.stack import eks_gpu_cluster_args
from fleet.facts.versions import KUBERNETES
from fleet.loading.config import load
from tests.components.recorded import build_alone, in_every_stack, named, of_type, stack_config


def config():
    held = {key.removeprefix("gpu-ci:"): value for key, value in stack_config("staging").objects.items()}
    return copy.deepcopy({key: held[key] for key in ("github", "clusters")})


def cluster(**changes):
    """The staging cluster alone, with settings changed."""
    settings = config()
    settings["clusters"]["usw2"] |= changes
    fleet = load(settings)

    def program():
        cloud = [aws.Provider("aws", region="us-west-2"), eks.Provider("eks")]
        EksGpuCluster.typed(
            "usw2",
            eks_gpu_cluster_args("usw2", fleet.clusters["usw2"], Context("gpu-ci", "test", {"owner": "ci"}), {}),
            opts=pulumi.ResourceOptions(providers=cloud),
        )

    return build_alone(program, f"{settings}")


OPS = "arn:aws:iam::123456789012:role/ops"
VPC: dict[str, Any] = {
    "vpcId": "vpc-0123456789abcdef0",
    "privateSubnets": {f"us-west-2{letter}": f"subnet-0123456789abcde{index}" for index, letter in enumerate("abc")},
}


@pytest.fixture(scope="module")
def private():
    """A private endpoint, no logs, a range and gateways of its own, admins of two accounts and an upgrade policy."""
    return cluster(
        endpoint={"private": True, "reachableFrom": "vpc-agent"},
        network={"cidr": "10.20.0.0/18", "natGateways": "per-zone"},
        logTypes=[],
        upgradePolicy="EXTENDED",
        admins=[OPS, "arn:aws:iam::210987654321:role/ops", "arn:aws:iam::123456789012:user/ops"],
    )


@pytest.fixture(scope="module")
def public():
    """The other value of each of these, protected."""
    return cluster(
        network={"natGateways": "one"},
        logRetentionDays=365,
        protect=True,
        upgradePolicy="STANDARD",
        admins=[OPS, "arn:aws:iam::123456789012:user/ada"],
        viewers=["arn:aws:iam::123456789012:role/sees"],
    )


@pytest.fixture(scope="module")
def given():
    """A private endpoint in a network that exists already."""
    endpoint = {"private": True, "reachableFrom": "vpn", "privateCidrs": ["10.8.0.0/16", "10.9.0.0/16"]}
    return cluster(endpoint=endpoint, network=VPC)


def control_plane(recording):
    (found,) = of_type(recording, "eks:index:Cluster")
    return found.inputs


def subnets(recording, kind):
    return {
        subnet.inputs["availabilityZone"]: ipaddress.ip_network(subnet.inputs["cidrBlock"])
        for subnet in of_type(recording, "aws:ec2/subnet:Subnet")
        if f"-{kind}-" in subnet.name
    }


def test_control_plane_brings_no_nodes_addons_or_groups_of_its_own(staging):
    inputs = control_plane(staging)
    assert inputs["skipDefaultNodeGroup"] is True
    assert inputs["authenticationMode"] == "API", "the aws-auth map is lost when a cluster is replaced"
    assert inputs["bootstrapSelfManagedAddons"] is False
    assert inputs["version"] == "1.36"
    assert inputs["name"] == "gpu-ci-staging-usw2"


def test_public_endpoint_admits_only_the_networks_named(staging):
    inputs = control_plane(staging)
    assert inputs["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert inputs["endpointPublicAccess"] is True
    assert inputs["endpointPrivateAccess"] is True, "nodes reach the API inside the VPC"


def test_private_endpoint_is_closed_to_the_internet(private):
    inputs = control_plane(private)
    assert inputs["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in inputs


@in_every_stack
def test_nodes_stand_in_private_subnets_only(recording):
    tables = [table for table in of_type(recording, "aws:ec2/routeTable:RouteTable") if table.name.endswith("-network-public")]
    public = {subnet.urn for subnet in of_type(recording, "aws:ec2/subnet:Subnet") if "-public-" in subnet.name}
    for table in tables:
        assert table.inputs["routes"][0]["cidrBlock"] == "0.0.0.0/0"
    for pool in of_type(recording, "aws:eks/nodeGroup:NodeGroup"):
        assert not public & set(pool.dependencies), f"{pool.name} has nodes in a public subnet"
    for subnet in of_type(recording, "aws:ec2/subnet:Subnet"):
        assert subnet.inputs["mapPublicIpOnLaunch"] is False


def test_subnets_are_inside_the_vpc_and_apart(private):
    blocks = [*subnets(private, "private").values(), *subnets(private, "public").values()]
    assert len(blocks) == 6
    assert all(block.subnet_of(ipaddress.ip_network("10.20.0.0/18")) for block in blocks)
    assert not any(one.overlaps(other) for index, one in enumerate(blocks) for other in blocks[index + 1 :])


def test_a_zone_more_moves_no_subnet():
    two, three = cluster(zones=["us-west-2a", "us-west-2c"]), cluster()
    for kind in ("private", "public"):
        assert subnets(two, kind).items() <= subnets(three, kind).items(), "a moved subnet replaces the nodes in it"


@pytest.mark.parametrize(("setting", "count"), [("public", 1), ("private", 3)])
def test_nat_gateways_are_as_the_settings_say(request, setting, count):
    recording = request.getfixturevalue(setting)
    gateways = {gateway.urn for gateway in of_type(recording, "aws:ec2/natGateway:NatGateway")}
    assert len(gateways) == count
    tables = [table for table in of_type(recording, "aws:ec2/routeTable:RouteTable") if "-private-" in table.name]
    assert len(tables) == 3, "every zone has a way out"
    used = [urn for table in tables for urn in table.property_dependencies["routes"] if urn in gateways]
    assert len(used) == 3
    assert set(used) == gateways, "a gateway that no zone uses is paid for nothing"


def test_given_subnets_are_used_as_they_are(given):
    assert not of_type(given, "aws:ec2/vpc:Vpc")
    assert control_plane(given)["vpcId"] == VPC["vpcId"]
    (system,) = of_type(given, "aws:eks/nodeGroup:NodeGroup")
    assert system.inputs["subnetIds"] == list(VPC["privateSubnets"].values())


def test_the_control_plane_waits_for_its_log_group(staging):
    (group,) = of_type(staging, "aws:cloudwatch/logGroup:LogGroup")
    assert (group.inputs["name"], group.inputs["retentionInDays"]) == ("/aws/eks/gpu-ci-staging-usw2/cluster", 90)
    assert group.inputs["tags"]["gpu-ci/stack"] == "staging"
    (plane,) = of_type(staging, "eks:index:Cluster")
    assert group.urn in plane.dependencies, "EKS would create a group that never expires"


def test_a_control_plane_without_logs_has_no_log_group(private):
    assert not of_type(private, "aws:cloudwatch/logGroup:LogGroup")


def test_logs_of_a_protected_cluster_are_kept_as_long_as_the_settings_say_and_protected(public):
    (group,) = of_type(public, "aws:cloudwatch/logGroup:LogGroup")
    assert (group.inputs["retentionInDays"], group.protect) == (365, True)


def test_the_upgrade_policy_is_eks_own_unless_it_is_set(staging, public, private):
    assert "upgradePolicy" not in control_plane(staging)
    assert control_plane(public)["upgradePolicy"] == {"supportType": "STANDARD"}
    assert control_plane(private)["upgradePolicy"] == {"supportType": "EXTENDED"}


def test_admins_and_viewers_get_access_entries_of_their_own(public):
    entries = of_type(public, "aws:eks/accessEntry:AccessEntry")
    principals = [OPS, "arn:aws:iam::123456789012:user/ada", "arn:aws:iam::123456789012:role/sees"]
    assert [entry.inputs["principalArn"] for entry in entries] == principals
    associations = of_type(public, "aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert [each.inputs["policyArn"].rpartition("/")[2] for each in associations] == [
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSAdminViewPolicy",
    ]
    assert all(each.inputs["accessScope"] == {"type": "cluster"} for each in associations)


def test_admins_of_two_accounts_may_share_a_role_name(private):
    assert len(of_type(private, "aws:eks/accessEntry:AccessEntry")) == 3


@pytest.mark.parametrize(
    ("settings", "doors"), [("private", ["10.20.0.0/18"]), ("given", ["10.8.0.0/16", "10.9.0.0/16"]), ("public", [])]
)
def test_a_private_endpoint_has_a_door_for_those_who_deploy(request, settings, doors):
    recording = request.getfixturevalue(settings)
    rules = of_type(recording, "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    assert [rule.inputs["cidrIpv4"] for rule in rules] == doors
    assert all((rule.inputs["fromPort"], rule.inputs["toPort"], rule.inputs["ipProtocol"]) == (443, 443, "tcp") for rule in rules)


def test_the_way_out_outlives_what_signs_off_through_it(staging):
    (gateway,) = of_type(staging, "aws:ec2/natGateway:NatGateway")
    # A subnet has the same name, and the gateway needs it anyway.
    route = named(staging, "usw2-network-public-us-west-2a", "aws:ec2/routeTableAssociation:RouteTableAssociation")
    assert route.urn in gateway.dependencies, "without its route the controller cannot remove runners at GitHub on destroy"


def test_addons_are_pinned_and_all_there(staging):
    addons = {addon.inputs["addonName"]: addon.inputs["addonVersion"] for addon in of_type(staging, "aws:eks/addon:Addon")}
    assert addons == KUBERNETES["1.36"].addons


def test_gpu_health_check_tolerates_the_gpu_taint(staging):
    (agent,) = [
        addon for addon in of_type(staging, "aws:eks/addon:Addon") if addon.inputs["addonName"] == "eks-node-monitoring-agent"
    ]
    (toleration,) = json.loads(agent.inputs["configurationValues"])["dcgmAgent"]["tolerations"]
    assert toleration == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def test_kubernetes_provider_is_not_replaced_with_its_kubeconfig(staging):
    (provider,) = of_type(staging, "pulumi:providers:kubernetes")
    assert provider.inputs["clusterIdentifier"] == "gpu-ci-staging-usw2"


def test_autoscaler_may_change_this_clusters_groups_and_no_others():
    reading, changing = json.loads(autoscaler_rights("mine"))["Statement"]
    assert not [action for action in reading["Action"] if not action.partition(":")[2].startswith(("Describe", "Get"))]
    assert "autoscaling:DescribeScalingActivities" in reading["Action"], "without it a pool without machines counts as available"
    assert changing["Action"] == ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    assert changing["Condition"]["StringEquals"] == {
        "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
        "aws:ResourceTag/k8s.io/cluster-autoscaler/mine": "owned",
    }


def test_autoscaler_has_its_rights_before_it_starts(staging):
    (chart,) = [chart for chart in of_type(staging, "kubernetes:helm.sh/v3:Release") if chart.name == "usw2-autoscaler-chart"]
    kinds = {urn.split("::")[2].rpartition("$")[2] for urn in chart.dependencies}
    assert {"aws:eks/podIdentityAssociation:PodIdentityAssociation", "aws:iam/rolePolicy:RolePolicy"} <= kinds
    (association,) = of_type(staging, "aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert association.inputs["serviceAccount"] == chart.inputs["values"]["rbac"]["serviceAccount"]["name"]
    assert association.inputs["namespace"] == chart.inputs["namespace"]
    (role,) = [role for role in of_type(staging, "aws:iam/role:Role") if role.name == "usw2-autoscaler-role"]
    (trust,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
