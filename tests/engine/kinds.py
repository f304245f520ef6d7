"""What clouds add to a resource, by type: its id, the outputs that are not among our inputs, and which names are taken.

Ids have the form that `pulumi import` takes (pages of the resources, section Import). Outputs are those that `components/` and
the simulated cluster read; "arn" has every resource of AWS. No other default is filled in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pulumi.runtime import rpc

from tests.engine import replacing

ACCOUNT = "123456789012"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_RELEASE = replacing.RELEASE
_DEFAULT_LIST = "oci:Core/defaultSecurityList:DefaultSecurityList"
"""OCI creates it with the network. Pulumi adopts it."""
_Raw = Mapping[str, Any]

_NAMES = {  # the input that is the physical name; without it the provider makes one up
    "aws:ec2/launchTemplate:LaunchTemplate": "name",
    "aws:ec2/placementGroup:PlacementGroup": "name",
    "aws:budgets/budget:Budget": "name",
    "aws:cloudwatch/logGroup:LogGroup": "name",
    "aws:ecr/repository:Repository": "name",
    "aws:eks/cluster:Cluster": "name",
    "aws:eks/nodeGroup:NodeGroup": "nodeGroupName",
    "aws:iam/instanceProfile:InstanceProfile": "name",
    "aws:iam/role:Role": "name",
    "aws:iam/rolePolicy:RolePolicy": "name",
    "aws:s3/bucket:Bucket": "bucket",
    "oci:ContainerEngine/nodePool:NodePool": "name",
    "oci:Identity/dynamicGroup:DynamicGroup": "name",
    "oci:Identity/policy:Policy": "name",
    "oci:Limits/quota:Quota": "name",
    _RELEASE: "name",
}
_IDS = {
    "aws:autoscaling/tag:Tag": "{autoscalingGroupName},{tag[key]}",
    "aws:budgets/budget:Budget": ACCOUNT + ":{name}",
    "aws:cloudwatch/logGroup:LogGroup": "{name}",
    "aws:ec2/placementGroup:PlacementGroup": "{name}",
    "aws:ecr/repository:Repository": "{name}",
    "aws:eks/addon:Addon": "{clusterName}:{addonName}",
    "aws:eks/cluster:Cluster": "{name}",
    "aws:eks/nodeGroup:NodeGroup": "{clusterName}:{nodeGroupName}",
    "aws:iam/instanceProfile:InstanceProfile": "{name}",
    "aws:iam/role:Role": "{name}",
    "aws:iam/rolePolicy:RolePolicy": "{role}:{name}",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "{role}/{policyArn}",
    "aws:s3/bucket:Bucket": "{bucket}",
    _RELEASE: "{namespace}/{name}",
}
_IMPORTS = {
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "{subnetId}/{routeTableId}",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "{clusterName},{id}",
}
_PREFIXES = {
    "aws:ec2/eip:Eip": "eipalloc",
    "aws:ec2/internetGateway:InternetGateway": "igw",
    "aws:ec2/launchTemplate:LaunchTemplate": "lt",
    "aws:ec2/natGateway:NatGateway": "nat",
    "aws:ec2/routeTable:RouteTable": "rtb",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "rtbassoc",
    "aws:ec2/securityGroup:SecurityGroup": "sg",
    "aws:ec2/subnet:Subnet": "subnet",
    "aws:ec2/vpc:Vpc": "vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpce",
    "aws:efs/fileSystem:FileSystem": "fs",
    "aws:efs/mountTarget:MountTarget": "fsmt",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "a",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "sgr",
}
_EKS, _IAM = "ResourceInUseException", "EntityAlreadyExists"
_TAKEN = {  # what may exist once in a region or cluster (in IAM: in an account), and how the cloud refuses a second one
    "aws:cloudwatch/logGroup:LogGroup": "ResourceAlreadyExistsException: The specified log group already exists: {name}",
    "aws:ec2/launchTemplate:LaunchTemplate": "InvalidLaunchTemplateName.AlreadyExistsException: {name} is in use",
    "aws:ec2/subnet:Subnet": "InvalidSubnet.Conflict: The CIDR '{cidrBlock}' of {vpcId} conflicts with another subnet",
    "aws:ecr/repository:Repository": "RepositoryAlreadyExistsException: The repository with name '{name}' already exists",
    "aws:eks/addon:Addon": _EKS + ": Addon {addonName} of cluster {clusterName} already exists",
    "aws:eks/cluster:Cluster": _EKS + ": Cluster already exists with name: {name}",
    "aws:eks/nodeGroup:NodeGroup": _EKS + ": NodeGroup already exists with name {nodeGroupName} and cluster name {clusterName}",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _EKS
    + ": Association already exists for service account {serviceAccount} in namespace {namespace} of cluster {clusterName}",
    "aws:iam/instanceProfile:InstanceProfile": _IAM + ": Instance Profile {name} already exists.",
    "aws:iam/role:Role": _IAM + ": Role with name {name} already exists.",
    "aws:s3/bucket:Bucket": "BucketAlreadyOwnedByYou: {bucket} exists already",
    "oci:Identity/dynamicGroup:DynamicGroup": "409-EntityAlreadyExists, DynamicGroup '{name}' already exists",
    "oci:Identity/policy:Policy": "409-PolicyAlreadyExists, Policy '{name}' already exists in compartment {compartmentId}",
    "oci:Limits/quota:Quota": "409-QuotaAlreadyExists, Quota '{name}' already exists in compartment {compartmentId}",
    _RELEASE: "cannot re-use a name that is still in use ({namespace}/{name})",
}
_SIZES = "scalingConfig"
_OBJECT = '"{metadata[namespace]}/{metadata[name]}" already exists'
_NO_VERSION = frozenset({"tags", "updateDefaultVersion", "defaultVersion"})
"""Edits of a template that make no new version (terraform-provider-aws@025e4f81cab8, ec2_launch_template.go, Update)."""
_KNOWN_VERSION = frozenset({"name", "namePrefix", "description", "defaultVersion", "updateDefaultVersion"})
"""Edits after which a preview knows the latest version (the same file, CustomizeDiff)."""


def _launch_template(identity: str, named: _Raw) -> dict[str, Any]:
    return {"name": named.get("name", identity), "latestVersion": 1, "defaultVersion": 1}


def _node_group(identity: str, named: _Raw) -> dict[str, Any]:
    name = named.get("nodeGroupName", identity.rpartition(":")[2])
    return {"nodeGroupName": name, "resources": [{"autoscalingGroups": [{"name": f"eks-{name}-asg"}]}]}


def _control_plane(identity: str, named: _Raw) -> dict[str, Any]:
    authority = {"data": "c2ltdWxhdGVk"}
    return {"endpoint": f"https://{identity}.simulated.invalid", "certificateAuthority": authority}


def _vcn(identity: str, named: _Raw) -> dict[str, Any]:
    return {"defaultSecurityListId": identity.replace(".vcn.", ".securitylist.")}


_ADDED: Mapping[str, Callable[[str, _Raw], dict[str, Any]]] = {
    TEMPLATE: _launch_template,
    "aws:eks/cluster:Cluster": _control_plane,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "oci:Core/vcn:Vcn": _vcn,
}


def automatic(urn: str, earlier: int) -> str:
    """A name as a provider makes it up: the logical one and seven digits, others for each creation of the same resource."""
    return f"{urn.rpartition('::')[2]}-{_hash(urn, earlier)[:7]}"


def _hash(urn: str, earlier: int) -> str:
    return hashlib.sha256(f"{urn}{earlier or ''}".encode()).hexdigest()


def identity(kind: str, name: str, inputs: _Raw) -> tuple[str, dict[str, Any]]:
    """(id, the physical name if the provider makes it up) of a new resource; `name` is what `automatic` gives."""
    key = _NAMES.get(kind)
    named = {key: name} if key and not inputs.get(key) else {}
    if kind.startswith("kubernetes:") and kind != _RELEASE:
        metadata = inputs.get("metadata") or {}
        return "/".join(filter(None, (metadata.get("namespace"), metadata.get("name", name)))), {}
    digits = hashlib.sha256(name.encode()).hexdigest()[:17]
    if kind == _DEFAULT_LIST:
        return str(inputs["manageDefaultResourceId"]), named
    if kind in _PREFIXES:
        return f"{_PREFIXES[kind]}-{digits}", named
    if kind.startswith("oci:"):
        return f"ocid1.{kind.rpartition(':')[2].lower()}.oc1..{digits}", named
    return _IDS.get(kind, name).format_map(_Fields({**inputs, **named})), named


def name_of(kind: str) -> str:
    """The input that is the physical name; empty if a type has none."""
    return _NAMES.get(kind, "")


def import_id(kind: str, identity: str, inputs: _Raw) -> str:
    """The id that `pulumi import` takes, which differs from the id of the state for some types."""
    return _IMPORTS.get(kind, "{id}").format_map(_Fields({**inputs, "id": identity}))


def added(kind: str, identity: str, inputs: _Raw) -> dict[str, Any]:
    """The outputs of a new resource that are not among its inputs."""
    arn = {"arn": f"arn:aws:simulated:::{identity}"} if kind.startswith("aws:") else {}
    return arn | (_ADDED[kind](identity, inputs) if kind in _ADDED else {})


def unknown(kind: str, inputs: _Raw) -> dict[str, str]:
    """The made-up name of a resource that a preview does not know."""
    return dict.fromkeys(identity(kind, "", inputs)[1], rpc.UNKNOWN)


def sent(kind: str, old: _Raw, new: _Raw, live: _Raw) -> _Raw:
    """The inputs of a resource after an update from `old` to `new`, of which the cloud has made `live`.

    The sizes of a node group are sent only if they change (hashicorp/terraform-provider-aws@012e0a32f068, node_group.go, Update).
    """
    is_silent = kind == "aws:eks/nodeGroup:NodeGroup" and old.get(_SIZES) == new.get(_SIZES)
    return {**new, _SIZES: live[_SIZES]} if is_silent and _SIZES in live else new


def updated(kind: str, outputs: _Raw, old: _Raw, new: _Raw, *, known: bool = True) -> dict[str, Any]:
    """The outputs after an update from the inputs `old` to `new`; before it, in a preview, if not `known`."""
    after = {**{key: value for key, value in outputs.items() if key not in old}, **new}
    if kind != TEMPLATE:
        return after
    edits = {re.split(r"[.[]", path)[0] for path, *_ in replacing.differing(kind, old, new)}
    latest = outputs["latestVersion"]
    if known:
        latest += bool(edits - _NO_VERSION)
    elif edits - _KNOWN_VERSION:
        latest = rpc.UNKNOWN
    return after | {"latestVersion": latest} | ({"defaultVersion": latest} if new.get("updateDefaultVersion") else {})


def is_global(kind: str) -> bool:
    """Whether a name may exist once in an account, and not in a region."""
    return kind.startswith(("aws:iam/", "aws:s3/"))


def taken(kind: str, outputs: _Raw, others: Iterable[_Raw]) -> str:
    """The cloud's refusal if one of the other resources has the same name."""
    text = _TAKEN.get(kind, _OBJECT if kind.startswith("kubernetes:") else "")
    refused, *names = (text.format_map(_Fields(each)) for each in (outputs, *others))
    return refused if refused in names else ""


class _Fields(dict[str, Any]):
    """Inputs and outputs for a format; a missing one is empty, at each depth."""

    def __getitem__(self, key: str) -> Any:
        value = self.get(key, {})
        return _Fields(value) if isinstance(value, dict) else value

    def __format__(self, spec: str) -> str:
        return ""
