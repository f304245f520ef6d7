"""The calls that find what a pending create made: against moto, and every one against AWS' models."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import boto3
import pytest

from fleet.providers.eks.leftovers import IMPORTS, AwsLeftovers
from fleet.providers.finding import SourceError
from gpu_ci.offline.plan import make_plan
from tests.builders import ROOT
from tests.docs.test_cloud_commands import aws_faults
from tests.doctor.fleets import shipped
from tests.simulated_aws import simulated_aws

REGION, STACK = "us-west-2", "staging"
ACCOUNT = "123456789012"
"""Moto's."""
POLICY = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]}
)


@pytest.fixture
def cloud() -> Iterator[Any]:
    with simulated_aws(REGION) as client:
        yield client


@pytest.fixture
def aws() -> AwsLeftovers:
    return AwsLeftovers("gpu-ci", STACK, shipped(STACK).clusters)


def tagged(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": "Name", "Value": name}, {"Key": "gpu-ci/stack", "Value": STACK}]}]


def network(cloud: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(type, inputs, id to import) of what EC2 has of a network."""
    ec2 = cloud("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", "net"))["Vpc"]["VpcId"]
    yield "aws:ec2/vpc:Vpc", {"tags": {"Name": "net"}}, vpc
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    yield "aws:ec2/subnet:Subnet", {"vpcId": vpc, "cidrBlock": "10.0.1.0/24"}, subnet
    table = ec2.create_route_table(VpcId=vpc, TagSpecifications=tagged("route-table", "a"))["RouteTable"]["RouteTableId"]
    yield "aws:ec2/routeTable:RouteTable", {"vpcId": vpc, "tags": {"Name": "a"}}, table
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    inputs = {"subnetId": subnet, "routeTableId": table}
    yield "aws:ec2/routeTableAssociation:RouteTableAssociation", inputs, f"{subnet}/{table}"
    gateway = ec2.create_internet_gateway(TagSpecifications=tagged("internet-gateway", "net"))["InternetGateway"]
    yield "aws:ec2/internetGateway:InternetGateway", {"tags": {"Name": "net"}}, gateway["InternetGatewayId"]
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", "nat"))["AllocationId"]
    yield "aws:ec2/eip:Eip", {"tags": {"Name": "nat"}}, address
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address, TagSpecifications=tagged("natgateway", "nat"))
    yield "aws:ec2/natGateway:NatGateway", {"subnetId": subnet, "tags": {"Name": "nat"}}, nat["NatGateway"]["NatGatewayId"]
    service = f"com.amazonaws.{REGION}.s3"
    endpoint = ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=service)["VpcEndpoint"]["VpcEndpointId"]
    yield "aws:ec2/vpcEndpoint:VpcEndpoint", {"vpcId": vpc, "serviceName": service}, endpoint
    group = ec2.create_security_group(VpcId=vpc, GroupName="nfs", Description="nfs")["GroupId"]
    yield "aws:ec2/securityGroup:SecurityGroup", {"vpcId": vpc, "name": "nfs"}, group
    rule = {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "NFS"}]}
    made = ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[rule])["SecurityGroupRules"][0]
    inputs = {"securityGroupId": group, "description": "NFS"}
    yield "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", inputs, made["SecurityGroupRuleId"]
    data = {"ImageId": "ami-12345678"}
    template = ec2.create_launch_template(LaunchTemplateName="lt-a1", LaunchTemplateData=data)["LaunchTemplate"]
    yield "aws:ec2/launchTemplate:LaunchTemplate", {"name": "lt-a1"}, template["LaunchTemplateId"]
    scaling = cloud("autoscaling")
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="asg", MinSize=0, MaxSize=1, VPCZoneIdentifier=subnet, LaunchTemplate={"LaunchTemplateName": "lt-a1"}
    )
    scaling.create_or_update_tags(
        Tags=[{"ResourceId": "asg", "ResourceType": "auto-scaling-group", "Key": "k", "Value": "v", "PropagateAtLaunch": True}]
    )
    yield "aws:autoscaling/tag:Tag", {"autoscalingGroupName": "asg", "tag": {"key": "k"}}, "asg,k"
    files = cloud("efs")
    system = files.create_file_system(CreationToken="t", Tags=[{"Key": "Name", "Value": "models"}])["FileSystemId"]
    yield "aws:efs/fileSystem:FileSystem", {"tags": {"Name": "models"}}, system
    target = files.create_mount_target(FileSystemId=system, SubnetId=subnet)["MountTargetId"]
    yield "aws:efs/mountTarget:MountTarget", {"fileSystemId": system, "subnetId": subnet}, target


def rights(cloud: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The same of IAM and of resources with a name in the whole account."""
    iam, policy = cloud("iam"), "arn:aws:iam::aws:policy/ReadOnlyAccess"
    iam.create_role(RoleName="node-a1", AssumeRolePolicyDocument="{}")
    yield "aws:iam/role:Role", {"name": "node-a1"}, "node-a1"
    iam.put_role_policy(RoleName="node-a1", PolicyName="rights-a1", PolicyDocument=POLICY)
    yield "aws:iam/rolePolicy:RolePolicy", {"role": "node-a1", "name": "rights-a1"}, "node-a1:rights-a1"
    own = iam.create_policy(PolicyName="p", PolicyDocument=POLICY)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="node-a1", PolicyArn=own)
    yield "aws:iam/rolePolicyAttachment:RolePolicyAttachment", {"role": "node-a1", "policyArn": own}, f"node-a1/{own}"
    yield "aws:iam/rolePolicyAttachment:RolePolicyAttachment", {"role": "node-a1", "policyArn": policy}, ""
    iam.create_instance_profile(InstanceProfileName="machine-a1")
    yield "aws:iam/instanceProfile:InstanceProfile", {"name": "machine-a1"}, "machine-a1"
    cloud("logs").create_log_group(logGroupName="/aws/eks/x/cluster")
    cloud("logs").create_log_group(logGroupName="/aws/eks/x/cluster2")
    yield "aws:cloudwatch/logGroup:LogGroup", {"name": "/aws/eks/x/cluster"}, "/aws/eks/x/cluster"
    cloud("ecr").create_repository(repositoryName="gpu-ci/runner")
    yield "aws:ecr/repository:Repository", {"name": "gpu-ci/runner"}, "gpu-ci/runner"
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="build-cache")
    yield "aws:s3/bucket:Bucket", {"bucket": "build-cache"}, "build-cache"
    budget = {"BudgetName": "b-a1", "BudgetLimit": {"Amount": "1", "Unit": "USD"}, "TimeUnit": "MONTHLY", "BudgetType": "COST"}
    cloud("budgets").create_budget(AccountId=ACCOUNT, Budget=budget)
    yield "aws:budgets/budget:Budget", {"name": "b-a1"}, f"{ACCOUNT}:b-a1"


def clusters(cloud: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The same of EKS."""
    eks, role = cloud("eks"), f"arn:aws:iam::{ACCOUNT}:role/r"
    eks.create_cluster(name="x", roleArn=role, resourcesVpcConfig={})
    yield "aws:eks/cluster:Cluster", {"name": "x"}, "x"
    eks.create_nodegroup(clusterName="x", nodegroupName="t4-a1", subnets=["subnet-1"], nodeRole=role)
    yield "aws:eks/nodeGroup:NodeGroup", {"clusterName": "x", "nodeGroupName": "t4-a1"}, "x:t4-a1"


MADE = (network, rights, clusters)


def ids(aws: AwsLeftovers, kind: str, inputs: dict[str, Any]) -> list[str]:
    search = aws.search(kind, inputs, REGION)
    assert search is not None
    return search.ids()


@pytest.mark.parametrize("make", MADE)
def test_what_was_created_is_found_by_its_inputs_with_the_id_to_import(cloud: Any, aws: AwsLeftovers, make: Any) -> None:
    aws.require_account([])
    made = list(make(cloud))
    assert len(made) >= 2
    for kind, inputs, identity in made:
        assert ids(aws, kind, inputs) == ([identity] if identity else []), kind


@pytest.mark.parametrize("make", MADE)
def test_what_does_not_exist_is_not_found(cloud: Any, aws: AwsLeftovers, make: Any) -> None:
    """The same inputs with other values."""
    aws.require_account([])
    asked = [(kind, inputs) for kind, inputs, _ in make(cloud)]
    for kind, inputs in asked:
        other = {
            key: dict.fromkeys(value, "other") if isinstance(value, dict) else f"{value[:-4]}0000"
            for key, value in inputs.items()
        }
        assert ids(aws, kind, other) == [], kind


def test_an_input_that_is_secret_or_unknown_makes_no_call(aws: AwsLeftovers) -> None:
    for value in ({"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}, None):
        assert aws.search("aws:iam/role:Role", {"name": value}, REGION) is None
    assert aws.search("aws:kms/key:Key", {"description": "x"}, REGION) is None


def test_credentials_of_another_account_are_refused(cloud: Any, aws: AwsLeftovers) -> None:
    """There everything of the state is missing, and the list would say that nothing exists."""
    aws.require_account(["vpc-1", f"arn:aws:iam::{ACCOUNT}:role/x", "arn:aws:s3:::bucket"])
    with pytest.raises(SourceError, match=f"of account {ACCOUNT}, the stack's resources of 987600001234"):
        aws.require_account(["arn:aws:iam::987600001234:role/x"])


def test_every_call_is_one_of_aws(aws: AwsLeftovers) -> None:
    class Anything(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            return Anything() if key in ("tags", "tag") else "x-1234567890"

    for kind, row in IMPORTS.items():
        search = aws.search(kind, Anything(), REGION)
        assert search is not None, kind
        if row.get("again"):
            assert search.again
            assert search.ids() == []
            continue
        words = tuple(shlex.split(search.command)[1:])
        if words[0] == "s3api":
            words = ("s3", *words[1:])
        if words[0] == "budgets":
            words = tuple("1" * 12 if word == "ACCOUNT" else word for word in words)
        assert list(aws_faults(words)) == [], search.command


def test_every_type_of_aws_that_a_stack_registers_has_a_way_or_a_reason() -> None:
    reasons = {
        "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "an account has one for a URL: a second create is refused",
        "aws:kms/key:Key": "no input names it; the tag finds it",
        **{
            f"aws:imagebuilder/{each}": "its name is taken: a second create is refused; the tag finds it"
            for each in (
                "component:Component",
                "distributionConfiguration:DistributionConfiguration",
                "imagePipeline:ImagePipeline",
                "imageRecipe:ImageRecipe",
                "infrastructureConfiguration:InfrastructureConfiguration",
                "lifecyclePolicy:LifecyclePolicy",
            )
        },
    }
    files = [None, *(ROOT / "examples" / f"Pulumi.{name}.yaml" for name in ("right-size", "capacity-block"))]
    plans = map(make_plan, ("prod", "right-size", "capacity-block"), repeat(ROOT), files)
    registered = {each.type for plan in plans for each in plan.resources if each.type.startswith("aws:")}
    assert registered - IMPORTS.keys() == reasons.keys()
