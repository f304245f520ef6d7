"""Resource tokens that the rules judge, and where those with a pod spec keep it.

Components (`helm.sh/v4:Chart`, `yaml/v2:ConfigGroup`, `gpu-ci:index:*` but one, those of `eks` but two) are in no set: they and
their children both reach a policy, and the children are the resources that the cloud gets, so only these are judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .read import Later, count, entries, items, keys, walk

_WORKLOADS = {
    "core/v1": ("Pod", "PodTemplate", "ReplicationController"),
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch/v1": ("Job", "CronJob"),
    # Older API versions have tokens of their own in the provider, which aliases them to the ones above.
    "apps/v1beta1": ("Deployment", "StatefulSet"),
    "apps/v1beta2": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "extensions/v1beta1": ("Deployment", "DaemonSet", "ReplicaSet"),
    "batch/v1beta1": ("CronJob",),
    "batch/v2alpha1": ("CronJob",),
}
_TEMPLATE = ("spec", "template", "spec")
_SPEC = {"Pod": ("spec",), "PodTemplate": ("template", "spec"), "CronJob": ("spec", "jobTemplate", *_TEMPLATE)}


def _tokens(suffix: str) -> dict[str, tuple[str, ...]]:
    return {
        f"kubernetes:{version}:{kind}{suffix}": _SPEC.get(kind, _TEMPLATE)
        for version, kinds in _WORKLOADS.items()
        for kind in kinds
    }


_RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
POD_PATHS = _tokens("") | _tokens("Patch") | {_RUNNER_SET: _TEMPLATE, f"{_RUNNER_SET}Patch": _TEMPLATE}
"""Token to the path of the pod spec in the kind's properties."""
LIST_PATHS = _tokens("List")
"""Token of a list to the path of the pod spec in each of its items."""

POD = frozenset(_tokens("")) | frozenset(_tokens("Patch")) | frozenset(LIST_PATHS)
"""Kubernetes' own kinds with a pod spec, their Patch twins and their lists."""

RUNNER_SET = frozenset((_RUNNER_SET, f"{_RUNNER_SET}Patch"))
"""ARC's runner set."""

RELEASE = "kubernetes:helm.sh/v3:Release"
APPLICATION = "kubernetes:argoproj.io/v1alpha1:Application"
APPLICATION_SET = "kubernetes:argoproj.io/v1alpha1:ApplicationSet"
HELM = frozenset((RELEASE, APPLICATION, APPLICATION_SET))
"""Charts that stay opaque: the values are all that a policy sees. `releases.py` reads them alike.

Of ArgoCD's kinds the Patch is left out: it says nothing of the chart that it leaves as it is.
"""

EKS_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OKE_NODE_POOL = "oci:ContainerEngine/nodePool:NodePool"
KARPENTER_NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
POOLS = frozenset((EKS_NODE_GROUP, OKE_NODE_POOL, KARPENTER_NODE_POOL))
"""Node pools whose nodes join a cluster."""
TALOS_NODE = "gpu-ci:index:TalosGpuNode"
"""A GPU machine of somebody's own: a component without children, whose inputs say what its machine config makes of it.

Offline plans alone have them: to policies of the stack an engine would show a component's outputs, and it has none.
"""
NODES = POOLS | {TALOS_NODE}
"""Resource types that set labels and taints of nodes."""

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
EC2_INSTANCE = "aws:ec2/instance:Instance"
EC2_NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
OCI_INSTANCE = "oci:Core/instance:Instance"
OCI_INSTANCE_CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
OCI_INSTANCE_POOL = "oci:Core/instancePool:InstancePool"
AUTO_SCALING_GROUP = "aws:autoscaling/group:Group"
EC2_FLEET = "aws:ec2/fleet:Fleet"
SPOT_REQUEST = "aws:ec2/spotInstanceRequest:SpotInstanceRequest"

EKS_ADDON = "aws:eks/addon:Addon"
EKS_ADDON_COMPONENT = "eks:index:Addon"
"""Like the cluster's component."""
OKE_ADDON = "oci:ContainerEngine/addon:Addon"

EKS_CLUSTER = "aws:eks/cluster:Cluster"
EKS_COMPONENT = "eks:index:Cluster"
"""A component that is judged by its own inputs, because an offline plan has no children for it (see `is_hollow`)."""
OKE_CLUSTER = "oci:ContainerEngine/cluster:Cluster"

SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
SECURITY_GROUPS = frozenset((SECURITY_GROUP, "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"))
SECURITY_GROUP_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
SECURITY_GROUP_INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
OCI_NSG_RULE = "oci:Core/networkSecurityGroupSecurityRule:NetworkSecurityGroupSecurityRule"
OCI_SECURITY_LISTS = frozenset(("oci:Core/securityList:SecurityList", "oci:Core/defaultSecurityList:DefaultSecurityList"))
AWS_SUBNET = "aws:ec2/subnet:Subnet"
OCI_SUBNET = "oci:Core/subnet:Subnet"
NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"
IAM_ROLE = "aws:iam/role:Role"

QUEUES = frozenset(
    f"kubernetes:kueue.x-k8s.io/{version}:{kind}{suffix}"
    for version in ("v1beta1", "v1beta2")
    for kind in ("ClusterQueue", "Cohort")
    for suffix in ("", "Patch")
)
"""Kueue's kinds that have quotas."""
CLUSTER_POLICY = frozenset(("kubernetes:nvidia.com/v1:ClusterPolicy", "kubernetes:nvidia.com/v1:ClusterPolicyPatch"))
"""The GPU operator's settings."""
CONFIG_MAP_LIST = "kubernetes:core/v1:ConfigMapList"
NAMESPACE = "kubernetes:core/v1:Namespace"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
RESOURCE_QUOTA = "kubernetes:core/v1:ResourceQuota"
LIMIT_RANGE = "kubernetes:core/v1:LimitRange"
CONFIG_MAPS = frozenset(("kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:ConfigMapPatch", CONFIG_MAP_LIST))

SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type token
SECRETS = frozenset((SECRET, f"{SECRET}Patch", f"{SECRET}List"))

SCALE_SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
PLUGIN_CHART, OPERATOR_CHART = "nvidia-device-plugin", "gpu-operator"
AUTOSCALER_CHART = "cluster-autoscaler"
"""Names of charts."""


def is_hollow(token: str, props: Any) -> bool:
    """Whether this is a component of `eks` without inputs, as its provider registers it: its children have what was asked of it.

    Fact: pulumi-eks 4 is built on @pulumi/pulumi 3.173.0, whose components send the engine no inputs (yarn.lock, August 2026).
    """
    return token in (EKS_COMPONENT, EKS_ADDON_COMPONENT) and not keys(props)


def each(token: str, props: Any, later: Later) -> Iterator[tuple[str, Any]]:
    """Path and properties of what a resource declares: the resource itself, or each item of a list. Unknown items are put off."""
    if not token.endswith("List"):
        yield "", props
        return
    for path, item in entries(props, "items", later):
        yield f"{path}.", item


def launches(props: Any, later: Later) -> Iterator[tuple[str, Any]]:
    """Path and body of each launch details of an OCI instance configuration; one body that is None where it has none.

    Unknown ones are put off.
    """
    with later:
        details = walk(props, "instanceDetails")
        options, unread = None, Later()
        with unread:
            options = walk(details, "options")
        later.join(unread)
        for index, option in items(options, later):
            with later:
                yield f"instanceDetails.options[{index}].launchDetails", walk(option, "launchDetails")
        launch = walk(details, "launchDetails")
        # A configuration of several options keeps its launch details in them.
        if launch is not None or not (count(options) or unread):
            yield "instanceDetails.launchDetails", launch


def kind_of(token: str) -> str:
    """The kind of a Kubernetes token ("Job"); for a list the kind of its items."""
    return token.rpartition(":")[2].removesuffix("Patch").removesuffix("List")
