"""AWS' APIs in front of the simulated cloud: real clients of boto3, which check the requests, get their answers from here.

Shapes: API models of botocore 1.44.5. It has the calls of `fleet/providers/eks/imports.toml` and of the scan for leftovers.
"""

# ruff: noqa: N802, N803 - calls and parameters have the names of the APIs

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import boto3

from tests.engine.kinds import ACCOUNT
from tests.engine.live import Cloud, Live

_EC2: Mapping[str, tuple[str, str, str, Mapping[str, str]]] = {
    "DescribeAddresses": ("aws:ec2/eip:Eip", "Addresses", "AllocationId", {"tag:Name": "tags.Name"}),
    "DescribeInternetGateways": (
        "aws:ec2/internetGateway:InternetGateway",
        "InternetGateways",
        "InternetGatewayId",
        {"tag:Name": "tags.Name"},
    ),
    "DescribeLaunchTemplates": (
        "aws:ec2/launchTemplate:LaunchTemplate",
        "LaunchTemplates",
        "LaunchTemplateId",
        {"launch-template-name": "name"},
    ),
    "DescribeNatGateways": (
        "aws:ec2/natGateway:NatGateway",
        "NatGateways",
        "NatGatewayId",
        {"tag:Name": "tags.Name", "subnet-id": "subnetId", "nat-gateway-id": "id"},
    ),
    "DescribeRouteTables": (
        "aws:ec2/routeTable:RouteTable",
        "RouteTables",
        "RouteTableId",
        {"tag:Name": "tags.Name", "vpc-id": "vpcId", "route-table-id": "id"},
    ),
    "DescribeSubnets": ("aws:ec2/subnet:Subnet", "Subnets", "SubnetId", {"vpc-id": "vpcId", "cidr-block": "cidrBlock"}),
    "DescribeVpcEndpoints": (
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "VpcEndpoints",
        "VpcEndpointId",
        {"vpc-id": "vpcId", "service-name": "serviceName"},
    ),
    "DescribeVpcs": ("aws:ec2/vpc:Vpc", "Vpcs", "VpcId", {"tag:Name": "tags.Name"}),
}
"""Type, key of the answer, key of the id, and input by filter."""
_ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
_ARNS = {
    "aws:cloudwatch/logGroup:LogGroup": "logs:{region}:{account}:log-group:{id}",
    "aws:ec2/eip:Eip": "ec2:{region}:{account}:elastic-ip/{id}",
    "aws:ec2/internetGateway:InternetGateway": "ec2:{region}:{account}:internet-gateway/{id}",
    "aws:ec2/launchTemplate:LaunchTemplate": "ec2:{region}:{account}:launch-template/{id}",
    "aws:ec2/natGateway:NatGateway": "ec2:{region}:{account}:natgateway/{id}",
    "aws:ec2/routeTable:RouteTable": "ec2:{region}:{account}:route-table/{id}",
    "aws:ec2/subnet:Subnet": "ec2:{region}:{account}:subnet/{id}",
    "aws:ec2/vpc:Vpc": "ec2:{region}:{account}:vpc/{id}",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "ec2:{region}:{account}:vpc-endpoint/{id}",
    "aws:eks/addon:Addon": "eks:{region}:{account}:addon/{path}/1234",
    "aws:eks/cluster:Cluster": "eks:{region}:{account}:cluster/{id}",
    "aws:eks/nodeGroup:NodeGroup": "eks:{region}:{account}:nodegroup/{path}/1234",
}
"""What the tagging API lists. It lists nothing of IAM."""


class _MissingError(Exception):
    """There is no such thing. Its text is the code of the service."""


@dataclass
class Aws:
    """The APIs of a cloud, for one stack."""

    cloud: Cloud
    stack: str

    def client(self, service: str, region: str) -> Any:
        """A client of boto3."""
        made = boto3.client(service, region_name=region, aws_access_key_id="x", aws_secret_access_key="x")  # noqa: S106
        made.meta.events.register("before-parameter-build", _remember)
        made.meta.events.register("before-call", self._answer)
        return made

    def _answer(self, model: Any, context: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
        region, asked = context["client_region"], context["asked"]
        try:
            answer = self._ec2(model.name, asked) if model.name in _EC2 else getattr(self, f"_{model.name}")(region, **asked)
        except _MissingError as missing:
            return SimpleNamespace(status_code=404), {"Error": {"Code": str(missing), "Message": "simulated"}}
        return SimpleNamespace(status_code=200), answer

    def _ec2(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        kind, key, name, inputs = _EC2[operation]
        filters = {each["Name"]: each["Values"] for each in asked.get("Filters", asked.get("Filter", ()))}

        def matches(live: Live) -> bool:
            for filter_name, values in filters.items():
                if filter_name == "association.subnet-id":
                    joined = {each.inputs["subnetId"] for each in self._of(_ASSOCIATION, routeTableId=live.id)}
                    found = next(iter(joined & set(values)), "")
                elif filter_name == "tag:gpu-ci/stack":
                    found = self.stack
                else:
                    found = _value(live, inputs[filter_name])
                if found not in values:
                    return False
            return True

        return {key: [{name: live.id, "State": "available"} for live in self.cloud.live(kind, matches)]}

    def _of(self, kind: str, **wanted: str) -> list[Live]:
        return self.cloud.live(kind, lambda live: all(_value(live, key) == value for key, value in wanted.items()))

    def _one(self, error: str, kind: str, **wanted: str) -> Live:
        found = self._of(kind, **wanted)
        if not found:
            raise _MissingError(error)
        return found[0]

    # Each call by its name and with its parameters.

    def _GetCallerIdentity(self, _: str) -> dict[str, Any]:
        return {"Account": ACCOUNT}

    def _GetResources(self, region: str, TagFilters: list[dict[str, Any]]) -> dict[str, Any]:
        """Resources with the stack's tag. EKS has made a launch template for each node group, which has it too."""
        if TagFilters != [{"Key": "gpu-ci/stack", "Values": [self.stack]}]:
            return {"ResourceTagMappingList": []}
        tag, found = {"Key": "gpu-ci/stack", "Value": self.stack}, []
        for live in (each for each in self.cloud.live() if each.type in _ARNS and each.scope == region):
            fields = {"region": region, "account": ACCOUNT, "id": live.id, "path": live.id.replace(":", "/")}
            found.append({"ResourceARN": "arn:aws:" + _ARNS[live.type].format(**fields), "Tags": [tag]})
        for live in self._of("aws:eks/nodeGroup:NodeGroup"):
            arn = f"arn:aws:ec2:{region}:{ACCOUNT}:launch-template/lt-eks-{live.number}"
            found.append({"ResourceARN": arn, "Tags": [tag, {"Key": "eks:nodegroup-name", "Value": "x"}]})
        return {"ResourceTagMappingList": found}

    def _DescribeLogGroups(self, _: str, logGroupNamePrefix: str) -> dict[str, Any]:
        groups = self._of("aws:cloudwatch/logGroup:LogGroup")
        return {"logGroups": [{"logGroupName": each.id} for each in groups if each.id.startswith(logGroupNamePrefix)]}

    def _DescribeTags(self, _: str, Filters: list[dict[str, Any]]) -> dict[str, Any]:
        (group,), (key,) = (each["Values"] for each in Filters)
        tags = self._of("aws:autoscaling/tag:Tag", autoscalingGroupName=group, **{"tag.key": key})
        return {"Tags": [{"Key": each.inputs["tag"]["key"]} for each in tags]}

    def _DescribeBudget(self, _: str, AccountId: str, BudgetName: str) -> dict[str, Any]:
        self._one("NotFoundException", "aws:budgets/budget:Budget", name=BudgetName)
        return {"Budget": {"BudgetName": BudgetName}}

    def _GetRole(self, _: str, RoleName: str) -> dict[str, Any]:
        self._one("NoSuchEntity", "aws:iam/role:Role", name=RoleName)
        return {"Role": {"RoleName": RoleName}}

    def _GetRolePolicy(self, _: str, RoleName: str, PolicyName: str) -> dict[str, Any]:
        self._one("NoSuchEntity", "aws:iam/rolePolicy:RolePolicy", role=RoleName, name=PolicyName)
        return {"PolicyName": PolicyName}

    def _ListAttachedRolePolicies(self, _: str, RoleName: str) -> dict[str, Any]:
        attached = self._of("aws:iam/rolePolicyAttachment:RolePolicyAttachment", role=RoleName)
        return {"AttachedPolicies": [{"PolicyArn": each.inputs["policyArn"]} for each in attached]}

    def _DescribeCluster(self, _: str, name: str) -> dict[str, Any]:
        self._one("ResourceNotFoundException", "aws:eks/cluster:Cluster", name=name)
        return {"cluster": {"name": name}}

    def _DescribeNodegroup(self, _: str, clusterName: str, nodegroupName: str) -> dict[str, Any]:
        kind = "aws:eks/nodeGroup:NodeGroup"
        self._one("ResourceNotFoundException", kind, clusterName=clusterName, nodeGroupName=nodegroupName)
        return {"nodegroup": {"nodegroupName": nodegroupName}}

    def _DescribeAddon(self, _: str, clusterName: str, addonName: str) -> dict[str, Any]:
        self._one("ResourceNotFoundException", "aws:eks/addon:Addon", clusterName=clusterName, addonName=addonName)
        return {"addon": {"addonName": addonName}}

    def _ListPodIdentityAssociations(self, _: str, **asked: str) -> dict[str, Any]:
        found = self._of("aws:eks/podIdentityAssociation:PodIdentityAssociation", **asked)
        return {"associations": [{"associationId": each.id} for each in found]}


def _remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """A later event has the request only as it is sent."""
    context["asked"] = params


def _value(live: Live, path: str) -> Any:
    found: Any = {**live.outputs, "id": live.id}
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
