"""Resource tokens that the rules judge, and the path of the pod spec in those that have one.

Components (`helm.sh/v4:Chart`, `yaml/v2:ConfigGroup`, `gpu-ci:index:*` but one, those of `eks` but two) are in no set. A policy
sees both components and their children. The children are the resources that the cloud gets, so rules judge only the children.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from fleet.facts.admission import SYSTEM
from fleet.facts.tables import beside

from .read import Data, Later, entries, keys, places, walk

_TABLES, _FIELDS = beside(__file__, "kinds.toml"), beside(__file__, "fields.toml")
_TEMPLATE = ("spec", "template", "spec")
_SPEC = {"Pod": ("spec",), "PodTemplate": ("template", "spec"), "CronJob": ("spec", "jobTemplate", *_TEMPLATE)}


def _tokens(suffix: str) -> dict[str, tuple[str, ...]]:
    return {
        f"kubernetes:{version}:{kind}{suffix}": _SPEC.get(kind, _TEMPLATE)
        for version, kinds in _TABLES["workloads"].items()
        for kind in kinds
    }


_OF_TERRAFORM = ("aws", "oci")
"""Providers made from Terraform's: each of their types has a module of its own."""


def listed(name: str) -> frozenset[str]:
    """The resource types in a table of `kinds.toml`."""
    return frozenset(
        f"{provider}:{f'{module}/{kind[0].lower()}{kind[1:]}' if provider in _OF_TERRAFORM else module}:{kind}"
        for provider, modules in _TABLES[name].items()
        for module, kinds in modules.items()
        for kind in kinds
    )


def api_tokens(group: str, versions: Iterable[str], kinds: Iterable[str], suffixes: Iterable[str]) -> frozenset[str]:
    """The tokens of kinds of a Kubernetes API group in all these versions, with each suffix ("", "Patch", "List")."""
    return frozenset(f"kubernetes:{group}/{version}:{''.join(kind)}" for version in versions for kind in product(kinds, suffixes))


def table(name: str) -> Mapping[str, list[str]]:
    """The lists in a table of `kinds.toml`."""
    return {key: list(names) for key, names in _TABLES[name].items()}


def fields(name: str) -> dict[str, Any]:
    """Where each type has what a section of `fields.toml` is about, by its token."""
    return {token: tuple(where) if isinstance(where, list) else where for token, where in _FIELDS[name].items()}


_RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
POD_PATHS = _tokens("") | _tokens("Patch") | {_RUNNER_SET: _TEMPLATE, f"{_RUNNER_SET}Patch": _TEMPLATE}
"""Token to the path of the pod spec in the kind's properties."""
LIST_PATHS = _tokens("List")
"""Token of a list to the path of the pod spec in each of its items."""

POD = frozenset(_tokens("")) | frozenset(_tokens("Patch")) | frozenset(LIST_PATHS)
"""Kubernetes' own kinds with a pod spec, their Patch variants and their lists."""

RUNNER_SET = frozenset((_RUNNER_SET, f"{_RUNNER_SET}Patch"))
"""ARC's runner set."""

RELEASE = "kubernetes:helm.sh/v3:Release"
APPLICATION = "kubernetes:argoproj.io/v1alpha1:Application"
APPLICATION_SET = "kubernetes:argoproj.io/v1alpha1:ApplicationSet"
HELM = frozenset((RELEASE, APPLICATION, APPLICATION_SET))
"""Kinds that install a chart: a policy sees only the values. `releases.py` reads all of them.

The Patch tokens of ArgoCD's kinds are left out: a Patch need not name the chart.
"""

EKS_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OKE_NODE_POOL = "oci:ContainerEngine/nodePool:NodePool"
KARPENTER_NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
POOLS = frozenset((EKS_NODE_GROUP, OKE_NODE_POOL, KARPENTER_NODE_POOL))
"""Node pools whose nodes join a cluster."""
TALOS_NODE = "gpu-ci:index:TalosGpuNode"
"""A GPU machine that the user owns: a component without children. Its inputs repeat what its machine config sets.

Only offline plans have it: an engine shows a component's outputs to stack policies, and this component has none.
"""
NODES = POOLS | {TALOS_NODE}
"""Resource types that set labels and taints of nodes."""

NODE_PATCH = "kubernetes:core/v1:NodePatch"
NODE_OBJECTS = listed("node_objects")
"""What only the kubelet, the scheduler and Karpenter write of a node, and of the pods on it."""

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
EC2_INSTANCE = "aws:ec2/instance:Instance"
EC2_NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
OCI_INSTANCE = "oci:Core/instance:Instance"
OCI_INSTANCE_CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
OCI_INSTANCE_POOL = "oci:Core/instancePool:InstancePool"
AUTO_SCALING_GROUP = "aws:autoscaling/group:Group"
OVERRIDES = _FIELDS["overrides"]["aws:autoscaling/group:Group"]
"""Path of the machine types of an Auto Scaling group."""
AUTO_SCALING_TAG = "aws:autoscaling/tag:Tag"
EC2_FLEET = "aws:ec2/fleet:Fleet"
_OVERRIDES = fields("overrides")
SPOT_REQUEST = "aws:ec2/spotInstanceRequest:SpotInstanceRequest"

EKS_ADDON = "aws:eks/addon:Addon"
EKS_ADDON_COMPONENT = "eks:index:Addon"
"""A component that is judged by its own inputs, like `EKS_COMPONENT`."""
OKE_ADDON = "oci:ContainerEngine/addon:Addon"

EKS_CLUSTER = "aws:eks/cluster:Cluster"
EKS_COMPONENT = "eks:index:Cluster"
"""A component that is judged by its own inputs, because an offline plan has no children for it (see `is_hollow`)."""
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
EXISTING_CLUSTER = "gpu-ci:index:ExistingCluster"
"""A cluster that the stack adds to and did not create: its `clusterName` and its `provider` (eks, oke, kubernetes)."""
OKE_CLUSTER = "oci:ContainerEngine/cluster:Cluster"

OCI_NSG_RULE = "oci:Core/networkSecurityGroupSecurityRule:NetworkSecurityGroupSecurityRule"
OCI_SECURITY_LISTS = frozenset(("oci:Core/securityList:SecurityList", "oci:Core/defaultSecurityList:DefaultSecurityList"))
AWS_SUBNET = "aws:ec2/subnet:Subnet"
OCI_SUBNET = "oci:Core/subnet:Subnet"
NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"
ADDRESS = "aws:ec2/eip:Eip"
KMS_KEY = "aws:kms/key:Key"
UNPRICED = listed("unpriced")
"""Resource types that cost money by the hour or by what they store, and of which the table of prices has none."""
KNOWN = listed("known")
"""All resource types that the components of this project register."""
IAM_ROLE = "aws:iam/role:Role"

QUEUES = api_tokens("kueue.x-k8s.io", ("v1beta1", "v1beta2"), ("ClusterQueue", "Cohort"), ("", "Patch"))
"""Kueue's kinds that have quotas."""
CLUSTER_POLICY = frozenset(("kubernetes:nvidia.com/v1:ClusterPolicy", "kubernetes:nvidia.com/v1:ClusterPolicyPatch"))
"""The GPU operator's settings."""
CONFIG_MAP_LIST = "kubernetes:core/v1:ConfigMapList"
NAMESPACE = "kubernetes:core/v1:Namespace"
SERVICE = "kubernetes:core/v1:Service"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
STORAGE_CLASS = "kubernetes:storage.k8s.io/v1:StorageClass"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
RESOURCE_QUOTA = "kubernetes:core/v1:ResourceQuota"
LIMIT_RANGE = "kubernetes:core/v1:LimitRange"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
CONFIG_MAPS = frozenset((CONFIG_MAP, f"{CONFIG_MAP}Patch", CONFIG_MAP_LIST))
PODS = POD | RUNNER_SET | HELM | CONFIG_MAPS
"""Every kind in which `pods.pod_specs` finds pods. A ConfigMap may have templates of the pods of jobs in containers."""


def is_object(token: str) -> bool:
    """Whether this is an object of Kubernetes, of any kind."""
    return token.startswith("kubernetes:")


def may_have_pods(token: str) -> bool:
    """Whether this is another kind of Kubernetes: `embedded.py` finds its pods, if it has any."""
    return is_object(token) and token not in PODS and not token.endswith(":CustomResourceDefinition")


ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING = (
    f"kubernetes:rbac.authorization.k8s.io/v1:{kind}" for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
)
"""What gives accounts rights on the objects of a cluster."""

SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type token
SECRETS = frozenset((SECRET, f"{SECRET}Patch", f"{SECRET}List"))

SERVING: tuple[str, ...] = tuple(_TABLES["serving"]["names"])
"""Names of containers that serve a node, also one with GPUs, without taking a GPU."""
SERVING_IMAGES, SERVING_NAMESPACES = frozenset(_TABLES["serving"]["images"]), frozenset(SYSTEM)
"""The last part of their images' repositories, and their namespaces."""

SCALE_SET_CHART, CONTROLLER_CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
PLUGIN_CHART, OPERATOR_CHART = "nvidia-device-plugin", "gpu-operator"
AUTOSCALER_CHART = "cluster-autoscaler"
PROMETHEUS_CHART = "kube-prometheus-stack"
"""Names of charts."""


def is_hollow(token: str, props: Data) -> bool:
    """Whether this is a component of `eks` without inputs. Its provider registers it that way; its children have the settings.

    Fact: pulumi-eks 4 is built on @pulumi/pulumi 3.173.0, whose components send the engine no inputs (yarn.lock, August 2026).
    """
    return token in (EKS_COMPONENT, EKS_ADDON_COMPONENT) and not keys(props)


def each(token: str, props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path and properties of the resource itself, or of each item of a list. `later` collects unknown items."""
    items = ((f"{path}.", item) for path, item in entries(props, "items", later))
    yield from items if token.endswith("List") else [("", props)]


def bodies(token: str, props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Prefix of paths and body of each machine that a resource describes.

    An OCI instance configuration, an Auto Scaling group and a fleet may have several. `later` collects unknown ones.
    """
    if token not in (OCI_INSTANCE_CONFIGURATION, *_OVERRIDES):
        yield "", props
    else:
        machines = entries(props, _OVERRIDES[token], later) if token in _OVERRIDES else launches(props, later)
        yield from ((f"{path}.", body) for path, body in machines)


def launches(props: Data, later: Later) -> Iterator[tuple[str, Data]]:
    """Path and body of each launch details of an OCI instance configuration; a single None body if it has none.

    `later` collects unknown values.
    """
    unread = Later()
    options = list(places(props, "instanceDetails.options.[].launchDetails", unread))
    yield from options
    later.join(unread)
    with later:
        launch = walk(props, "instanceDetails", "launchDetails")
        # A configuration of several options keeps its launch details in them.
        if launch is not None or not (options or unread):
            yield "instanceDetails.launchDetails", launch


def kind_of(token: str) -> str:
    """The kind of a Kubernetes token ("Job"); for a list the kind of its items."""
    return token.rpartition(":")[2].removesuffix("Patch").removesuffix("List")
