"""An EKS cluster ready for GPU pools: network, control plane, add-ons, untainted system pool, autoscaler."""

import json
from collections.abc import Mapping, Sequence
from operator import methodcaller
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
from pydantic import Field

from components.arguments import known, settings, typed
from components.cluster_args import BudgetArgs, EndpointArgs, require_label
from components.component import PackagedComponent, Text
from components.eks.autoscaler import EksAutoscaler
from components.eks.governance import govern
from components.eks.iam import service_role
from components.eks.launch import joining, launch_template
from components.eks.live_sizes import LiveSizes
from components.eks.managed_nodes import managed_nodes
from components.eks.network import EksNetwork
from components.eks.parts import declare_addon, open_port
from components.kubernetes.provider import kubernetes_provider
from fleet.facts.manifest import filled
from fleet.facts.record import Record
from fleet.facts.scheduling import GPU_TOLERATION, SYSTEM_POOL, system_labels
from fleet.providers.eks.cluster import EksCluster, QuotaCode, SubnetId, VpcId, control_plane_logs
from fleet.providers.eks.provider import autoscaler
from fleet.providers.eks.runners import EksPodRunner
from fleet.providers.tags import AWS_TAGS, STACK_TAG, fixed_tags
from fleet.settings.model import TagKey, TagValue
from fleet.settings.refusals import matching
from fleet.settings.runner import SetName

_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
_ACCESS_POLICIES = {"admin": "AmazonEKSClusterAdminPolicy", "viewer": "AmazonEKSAdminViewPolicy"}
"""EKS' access policy by kind of principal. AmazonEKSViewPolicy lacks Secrets, nodes and custom resources: a preview fails."""
_BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""Without these add-ons a node never becomes ready, or a pod never gets its rights."""
_ON_NODES = ("coredns", "eks-node-monitoring-agent", "metrics-server")
"""Add-ons that need a node to run on."""
_ADDON_VALUES: dict[str, dict[str, Any]] = {
    # Off by default: NetworkPolicies would have no effect. The value is a string (EKS user guide, cni-network-policy-configure).
    "vpc-cni": {"enableNetworkPolicy": "true"},
    # By default its GPU health check does not tolerate the GPU taint, and then reports nothing.
    "eks-node-monitoring-agent": {"dcgmAgent": {"tolerations": [GPU_TOLERATION.manifest()]}},
}
ClusterName = Annotated[str, matching("cluster_name", r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")]
"""Source: EKS API, ClusterName."""


class NodeCountArgs(TypedDict):
    """The number of nodes of a pool that is scaled."""

    max: int
    """Largest number of nodes, 1 to 1000."""
    min: NotRequired[int]
    """Smallest number of nodes. The pool starts with it. Default: 0."""


class EksSystemPoolArgs(TypedDict, total=False):
    """The untainted CPU pool. Controllers, listeners and CoreDNS run on it."""

    instance_types: list[str]
    """EC2 instance types. Default: m6i.large."""
    nodes: NodeCountArgs
    """The number of nodes, at least 1. Default: 2 to 4."""
    disk: str
    """Root volume of a node, in Mi or Gi. Default: 50Gi."""


class EksGpuClusterArgs(TypedDict):
    """Arguments of EksGpuCluster. The component's providers must have an AWS provider of `region`, and an EKS provider.

    The component's name becomes a label of the system nodes: at most 63 letters, digits, '-', '_' and '.'.
    """

    region: str
    """A commercial AWS region, such as us-west-2."""
    zones: list[str]
    """Availability zones of the nodes."""
    control_plane_zones: NotRequired[list[str]]
    """At least two zones of the control plane and of the system pool. They can never change after the creation. Default:
    `zones`."""
    kubernetes_version: str
    """A Kubernetes minor that the component has pinned versions for, such as 1.34."""
    endpoint: EndpointArgs
    """Who can reach the API server."""
    cluster_name: NotRequired[str]
    """The cluster's name in AWS. Default: the component's name."""
    vpc_cidr: NotRequired[str]
    """IPv4 range of a new VPC, /16 to /22. Default: 10.0.0.0/16."""
    nat_gateways: NotRequired[str]
    """NAT gateways of a new VPC: one, or per-zone. Default: one."""
    vpc_id: NotRequired[Text]
    """Id of an existing VPC. Default: a new VPC."""
    private_subnet_ids: NotRequired[pulumi.Input[dict[str, Text]]]
    """Ids of private subnets of the existing VPC by zone, one for each of `zones` and `controlPlaneZones`. Each
    needs its own route to the internet."""
    admins: NotRequired[list[str]]
    """ARNs of IAM roles and users with cluster-admin. Do not list the principal that creates the cluster: EKS makes it an admin
    and refuses a second entry. Default: none."""
    viewers: NotRequired[list[str]]
    """ARNs of IAM roles and users that read everything in the cluster, Secrets included, and change nothing. Default: none."""
    upgrade_policy: NotRequired[str]
    """What AWS does when standard support of the Kubernetes minor ends: EXTENDED (extended support, at its price) or STANDARD
    (upgrade by AWS). EKS changes it only while the minor is in standard support. Default: EKS' own, EXTENDED."""
    log_types: NotRequired[list[str]]
    """Logs of the control plane: api, audit, authenticator, controllerManager, scheduler. Default: api, audit, authenticator."""
    log_retention_days: NotRequired[int]
    """Days that CloudWatch keeps these logs: one of the numbers that CloudWatch accepts, such as 30, 90 or 365. Default: 90."""
    system: NotRequired[EksSystemPoolArgs]
    """The pool for everything that needs no GPU."""
    install_autoscaler: NotRequired[bool]
    """Whether Helm installs the chart of Cluster Autoscaler. Its rights are created either way. Set it to false if another tool,
    such as ArgoCD, installs the chart. Default: true."""
    autoscale_by_priority: NotRequired[bool]
    """Whether Cluster Autoscaler prefers node groups by the numbers in the ConfigMap
    kube-system/cluster-autoscaler-priority-expander, which you create. Default: false."""
    budget: NotRequired[BudgetArgs]
    """A budget for everything in the account that has the tag gpu-ci/stack with the value `stackTag`. The tag counts once the
    paying account has activated it as a cost allocation tag. Default: no budget."""
    quotas: NotRequired[dict[str, int]]
    """vCPUs to request by code of an EC2 quota, such as L-DB2E81BA. AWS refuses fewer than the account has. Default: no
    request."""
    tags: NotRequired[dict[str, str]]
    """Tags of the owner, for the control plane and new system instances. They may change at any time. Default: none."""
    stack_tag: NotRequired[str]
    """Value of the tag gpu-ci/stack, which instances, volumes and interfaces have. A change replaces the system nodes. Default:
    the name of the stack."""
    protect: NotRequired[bool]
    """Whether Pulumi and EKS refuse to delete the control plane. Default: false."""


class EksClusterSettings(EksCluster):
    """A cluster without pools and runner sets."""

    provider: Literal["eks"] = "eks"
    runners: dict[SetName, EksPodRunner] = Field(default_factory=dict)
    cluster_name: ClusterName | None = None
    install_autoscaler: bool = True
    autoscale_by_priority: bool = False
    quotas: dict[QuotaCode, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=AWS_TAGS.most)] = Field(default_factory=dict)
    stack_tag: TagValue | None = None


_OF_NETWORK = {"cidr": "vpcCidr", "natGateways": "natGateways", "vpcId": "vpcId", "privateSubnets": "privateSubnetIds"}


class Read(Record):
    """`settings` have example ids where ids are outputs. `vpc_id` and `private_subnets` (by zone) are the real ones.

    They are None and empty for a new VPC. `live` are the sizes in AWS, None for a program that does not read them.
    """

    settings: EksClusterSettings
    vpc_id: Text | None
    private_subnets: dict[str, Text]
    live: LiveSizes | None = None


class EksGpuCluster(PackagedComponent[Read]):
    """An EKS cluster for GPU pools: VPC, control plane, add-ons, system pool and Cluster Autoscaler.

    The control plane is an `eks.Cluster`. Everything that policies check is a separate resource.
    """

    _paths = MappingProxyType({f"network.{key}": name for key, name in _OF_NETWORK.items()})

    cluster_name: pulumi.Output[str]
    """The name in AWS. It is known in preview and depends on the control plane."""
    kubeconfig: pulumi.Output[str]
    """JSON kubeconfig. Its user signs in with the AWS CLI."""
    node_role_arn: pulumi.Output[str]
    """ARN of the IAM role that every node has."""
    vpc_id: pulumi.Output[str]
    """Id of the VPC."""
    private_subnet_ids: pulumi.Output[dict[str, str]]
    """Ids of the nodes' private subnets by zone."""
    security_group_id: pulumi.Output[str]
    """Id of the security group that EKS gives to control plane and nodes."""

    def __init__(self, name: str, args: EksGpuClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        require_label(name)
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: Mapping[str, Any]) -> Read:
        vpc_id, subnets = inputs.get("vpcId"), inputs.get("privateSubnetIds", {})
        if isinstance(subnets, pulumi.Output):
            zones = dict.fromkeys([*inputs["zones"], *inputs.get("controlPlaneZones", [])])
            # "" is not the id of a subnet.
            subnets = {zone: subnets.apply(methodcaller("get", zone, "")) for zone in zones}
        ids = {"vpcId": known(vpc_id, "vpc-00000000"), "privateSubnetIds": known(subnets, "subnet-00000000")}
        values = settings(EksClusterSettings, {**inputs, **filled(ids)}, cls._paths)
        vpc = None if vpc_id is None else typed("vpcId", vpc_id, VpcId)
        return Read(values, vpc, {zone: typed(f"privateSubnetIds.{zone}", one, SubnetId) for zone, one in subnets.items()})

    def declare(self, name: str, args: Read) -> None:
        settings = args.settings
        self._cluster_name = settings.cluster_name or name
        self._stack = settings.stack_tag or pulumi.get_stack()
        govern(name, settings.budget, self._stack, settings.quotas, parent=self)
        waiting = args.live.zones if args.live is not None and settings.replace_nodes == "wait" else ()
        vpc_id, subnets = self._network(name, args, waiting)
        self.subnets = {zone: subnets[zone] for zone in dict.fromkeys((*settings.node_zones, *waiting)) if zone in subnets}
        """The nodes' private subnets by zone. Unlike the output, each depends on its own subnet only."""
        self._fixed_subnets = [subnets[zone] for zone in sorted(settings.fixed_zones)]
        control_plane = self._control_plane(name, settings, vpc_id)
        self.vpc_id = pulumi.Output.from_input(vpc_id)
        self.private_subnet_ids = pulumi.Output.all(**self.subnets)
        self.security_group_id = control_plane.cluster_security_group_id
        # With the plain string a node group could start before its cluster exists.
        self.cluster_name = control_plane.urn.apply(lambda _: self._cluster_name)
        self.kubeconfig = control_plane.kubeconfig_json
        self.joining = joining(control_plane.eks_cluster)
        """What nodes with an image of your own need to join, by argument of GpuNodeGroup."""
        self.kubernetes_provider = kubernetes_provider(name, self._cluster_name, kubeconfig=self.kubeconfig, parent=self)
        self._principals(name, "admin", settings.admins)
        self._principals(name, "viewer", settings.viewers)
        role, rights = service_role(f"{name}-node", "ec2.amazonaws.com", _NODE_POLICIES, parent=self, after=self._after)
        self.node_role_arn = role.arn
        self.node_role_name = role.name
        """Name of the role of every node."""
        first = [self._addon(name, addon, settings, []) for addon in _BEFORE_NODES]
        self.before_nodes: tuple[pulumi.Resource, ...] = (*rights, *first)
        """What a node needs to join."""
        system = self._system_pool(name, settings, args.live)
        last = [self._addon(name, addon, settings, [system]) for addon in _ON_NODES]
        access = self._access(name, settings, control_plane)
        self.ready: tuple[pulumi.Resource, ...] = (system, *last, *access)
        """These must exist before a chart: system nodes and name resolution."""
        chart = autoscaler(settings, self._cluster_name, by_priority=settings.autoscale_by_priority)
        installed, opts = chart if settings.install_autoscaler else None, self._below(providers=[self.kubernetes_provider])
        names = (self._cluster_name, self.cluster_name)
        self.autoscaler = EksAutoscaler(f"{name}-autoscaler", opts, *names, installed, self.ready)
        """The autoscaler's rights, and its chart if Helm installs it."""

    def _network(self, name: str, args: Read, zones: Sequence[str]) -> tuple[Text, Mapping[str, Text]]:
        """The VPC and its private subnets by zone, with those of the control plane and of groups that leave."""
        if args.vpc_id is not None:
            return args.vpc_id, args.private_subnets
        network = EksNetwork(f"{name}-network", self._below(*self._after), args.settings, zones)
        return network.vpc_id, network.private_subnets

    def _control_plane(self, name: str, settings: EksClusterSettings, vpc_id: Text) -> eks.Cluster:
        """The control plane, and its log group, which must exist before it: EKS would create one that never expires.

        The log group is deleted after the control plane. One that stays would stop the next cluster of that name.
        """
        policy, tags, before = settings.upgrade_policy, {**settings.tags, STACK_TAG: self._stack}, self._after
        if settings.log_types:
            called, opts = control_plane_logs(self._cluster_name), self._below(*before, protect=settings.protect)
            kept = {"retention_in_days": settings.log_retention_days, "deletion_protection_enabled": settings.protect}
            logs = aws.cloudwatch.LogGroup(f"{name}-control-plane-logs", name=called, **kept, tags=tags, opts=opts)
            before = [*before, logs]
        return eks.Cluster(
            f"{name}-control-plane",
            name=self._cluster_name,
            version=settings.kubernetes_version,
            vpc_id=vpc_id,
            private_subnet_ids=self._fixed_subnets,
            endpoint_private_access=True,
            endpoint_public_access=not settings.endpoint.private,
            public_access_cidrs=list(settings.endpoint.public_cidrs) or None,
            authentication_mode=eks.AuthenticationMode.API,
            enabled_cluster_log_types=list(settings.log_types),
            upgrade_policy={"support_type": policy} if policy else None,
            # This component or EKS creates nodes, add-ons and security groups, so that the plan shows and checks them.
            skip_default_node_group=True,
            skip_default_security_groups=True,
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            create_oidc_provider=False,
            # Unlike Pulumi's own protection, this and that of the logs also block a deletion in the console. Without a value AWS'
            # provider keeps the old one (terraform-provider-aws, internal/service/eks/cluster.go: optional and computed).
            deletion_protection=settings.protect,
            tags=tags,
            opts=self._below(*before, protect=settings.protect),
        )

    def _access(self, name: str, settings: EksCluster, control_plane: eks.Cluster) -> list[pulumi.Resource]:
        """Access of the program to a private endpoint. The cluster's own security group allows its members only."""
        group, why = control_plane.cluster_security_group_id, "Kubernetes API from where the program runs"
        sources = {f"{name}-api-from-{source}": source for source in settings.private_sources}
        return [open_port(called, group, 443, why, self._child, cidr_ipv4=source) for called, source in sources.items()]

    def _principals(self, name: str, kind: str, principals: Sequence[str]) -> None:
        """An access entry with the access policy of the kind for each principal."""
        for principal in principals:
            # Roles of two accounts may share their last part, so the name contains account, kind and path.
            who = principal.removeprefix("arn:aws:iam::").replace(":", "-").replace("/", "-")
            called = f"{name}-{kind}-{who}"
            entry = aws.eks.AccessEntry(called, cluster_name=self.cluster_name, principal_arn=principal, opts=self._child)
            of: dict[str, Any] = {"cluster_name": self.cluster_name, "principal_arn": entry.principal_arn}
            policy = f"arn:aws:eks::aws:cluster-access-policy/{_ACCESS_POLICIES[kind]}"
            scope: dict[str, Any] = {"access_scope": {"type": "cluster"}}
            aws.eks.AccessPolicyAssociation(called, **of, policy_arn=policy, **scope, opts=self._child)

    def _addon(self, name: str, addon: str, settings: EksCluster, after: list[pulumi.Resource]) -> aws.eks.Addon:
        values = _ADDON_VALUES.get(addon)
        version, text = settings.kubernetes.addons[addon], json.dumps(values) if values else None
        return declare_addon(f"{name}-addon-{addon}", self.cluster_name, addon, version, self._below(*after), text)

    def _system_pool(self, name: str, settings: EksClusterSettings, live: LiveSizes | None) -> aws.eks.NodeGroup:
        """One node group over the control plane's zones, so that no change of `zones` replaces it.

        Unlike a GPU pool it is not split: system pods restart elsewhere when AZRebalance ends a node, and AZRebalance keeps the
        nodes in different zones.
        """
        pool, tags = settings.system, fixed_tags(self._stack, name, SYSTEM_POOL)
        return managed_nodes(
            f"{name}-system",
            self._fixed_subnets,
            pool.nodes,
            parent=self,
            live=live,
            ready=self.before_nodes,
            kubernetes_version=settings.kubernetes_version,
            ami_type="AL2023_x86_64_STANDARD",
            instance_types=pool.instance_types,
            template=launch_template(f"{name}-system-launch", pool.disk, tags, parent=self),
            labels=system_labels(name),
            owner_tags=settings.tags,
            cluster_name=self.cluster_name,
            node_role_arn=self.node_role_arn,
            capacity_type="ON_DEMAND",
            node_repair_config={"enabled": True},
        )
