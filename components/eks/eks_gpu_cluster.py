"""An EKS cluster ready for GPU pools: network, control plane, add-ons, untainted system pool, autoscaler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.eks.autoscaler import EksAutoscaler, EksAutoscalerArgs
from components.eks.governance import budget, quotas
from components.eks.managed_nodes import ManagedNodes, managed_nodes
from components.eks.network import EksNetwork, EksNetworkArgs
from components.kubernetes.deliver import by_helm
from fleet.facts import versions
from fleet.facts.scheduling import GPU_TOLERATION, system_labels
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.nodes import EksPool
from fleet.providers.tags import STACK_TAG

_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
_ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
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
_NODE_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


@dataclass(frozen=True, slots=True)
class EksGpuClusterArgs:
    """`cluster` is the cluster's name in the settings, `physical_name` its name in AWS. `quotas` are vCPUs by quota code."""

    cluster: str
    physical_name: str
    settings: EksCluster
    tags: dict[str, str]
    quotas: Mapping[str, int] = field(default_factory=dict)


class EksGpuCluster(Component[EksGpuClusterArgs]):
    """The control plane is an `eks.Cluster`. Everything that policies check is a separate resource."""

    cluster_name: pulumi.Output[str]
    """The physical name, which is known in preview and depends on the control plane."""
    kubeconfig: pulumi.Output[str]
    """JSON kubeconfig; its credentials come from the AWS CLI of whoever uses it."""
    node_role_arn: pulumi.Output[str]
    """Of the role that every node has."""
    vpc_id: pulumi.Input[str]
    security_group_id: pulumi.Output[str]
    """Id of the group that EKS gives to control plane and nodes."""

    def declare(self, name: str, args: EksGpuClusterArgs) -> dict[str, Any]:
        settings = args.settings
        if settings.budget is not None:
            budget(name, settings.budget, args.tags[STACK_TAG], parent=self)
        quotas(name, args.quotas, parent=self)
        self.vpc_id, self.subnet_ids = self._network(name, settings)
        self._zones = settings.zones
        control_plane = self._control_plane(name, args)
        self.security_group_id = control_plane.cluster_security_group_id
        # With the plain string a node group could start before its cluster exists.
        self.cluster_name = control_plane.urn.apply(lambda _: args.physical_name)
        self.kubeconfig = control_plane.kubeconfig_json
        self.kubernetes_provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it any change of the kubeconfig would replace every object in the cluster.
            cluster_identifier=args.physical_name,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._admins(name, settings)
        role, rights = self._node_role(name)
        self.node_role_arn = role.arn
        first = [self._addon(name, addon, settings, []) for addon in _BEFORE_NODES]
        self.before_nodes: tuple[pulumi.Resource, ...] = (*rights, *first)
        """What a node needs to join."""
        system = self._system_pool(name, args)
        last = [self._addon(name, addon, settings, [system]) for addon in _ON_NODES]
        access = self._access(name, settings, control_plane)
        self.ready: tuple[pulumi.Resource, ...] = (system, *last, *access)
        """These must exist before a chart: system nodes and name resolution."""
        self.autoscaler = EksAutoscaler(
            f"{name}-autoscaler",
            EksAutoscalerArgs(
                args.physical_name,
                self.cluster_name,
                settings.region,
                settings.kubernetes_version,
                self.ready,
                None if settings.by_git else by_helm,
            ),
            opts=pulumi.ResourceOptions(parent=self, providers=[self.kubernetes_provider]),
        )
        """The autoscaler's rights, and its chart if Helm installs it."""
        return {"clusterName": self.cluster_name, "kubeconfig": self.kubeconfig, "nodeRoleArn": self.node_role_arn}

    def subnets_of(self, pool: EksPool) -> list[pulumi.Input[str]]:
        """The private subnets of a pool's nodes. A reservation has machines in one zone."""
        zones = (pool.reservation.zone,) if pool.reservation is not None else pool.zones
        return [self.subnets[zone] for zone in zones] or self.subnet_ids

    @property
    def subnets(self) -> dict[str, pulumi.Input[str]]:
        """The nodes' private subnets by zone."""
        return dict(zip(self._zones, self.subnet_ids, strict=True))

    def _network(self, name: str, settings: EksCluster) -> tuple[pulumi.Input[str], list[pulumi.Input[str]]]:
        given = settings.network
        if given.vpc_id is not None:
            return given.vpc_id, [given.private_subnets[zone] for zone in settings.zones]
        network = EksNetwork(
            f"{name}-network", EksNetworkArgs(settings.region, settings.zones, given), opts=pulumi.ResourceOptions(parent=self)
        )
        return network.vpc_id, list(network.private_subnet_ids)

    def _control_plane(self, name: str, args: EksGpuClusterArgs) -> eks.Cluster:
        settings = args.settings
        return eks.Cluster(
            f"{name}-control-plane",
            name=args.physical_name,
            version=settings.kubernetes_version,
            vpc_id=self.vpc_id,
            private_subnet_ids=self.subnet_ids,
            endpoint_private_access=True,
            endpoint_public_access=not settings.endpoint.private,
            public_access_cidrs=list(settings.endpoint.public_cidrs) or None,
            authentication_mode=eks.AuthenticationMode.API,
            enabled_cluster_log_types=list(settings.log_types),
            # This component or EKS creates nodes, add-ons and security groups, so that the plan shows and checks them.
            skip_default_node_group=True,
            skip_default_security_groups=True,
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            create_oidc_provider=False,
            # Unlike Pulumi's own protection, this also blocks a deletion in the console.
            deletion_protection=settings.protect or None,
            tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=settings.protect),
        )

    def _access(self, name: str, settings: EksCluster, control_plane: eks.Cluster) -> list[pulumi.Resource]:
        """Access of the program to a private endpoint. The cluster's own security group allows its members only."""
        return [
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-api-from-{source}",
                security_group_id=control_plane.cluster_security_group_id,
                cidr_ipv4=source,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                description="Kubernetes API from where the program runs",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for source in settings.private_sources
        ]

    def _admins(self, name: str, settings: EksCluster) -> None:
        for principal in settings.admins:
            # Roles of two accounts may share their last part, so the name contains account, kind and path.
            who = principal.removeprefix("arn:aws:iam::").replace(":", "-").replace("/", "-")
            entry = aws.eks.AccessEntry(
                f"{name}-admin-{who}",
                cluster_name=self.cluster_name,
                principal_arn=principal,
                opts=pulumi.ResourceOptions(parent=self),
            )
            aws.eks.AccessPolicyAssociation(
                f"{name}-admin-{who}",
                cluster_name=self.cluster_name,
                principal_arn=entry.principal_arn,
                policy_arn=_ADMIN_POLICY,
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=pulumi.ResourceOptions(parent=self),
            )

    def _node_role(self, name: str) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(f"{name}-node-role", assume_role_policy=_NODE_TRUST, opts=child)
        rights: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{name}-node-{policy}", role=role.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}", opts=child
            )
            for policy in _NODE_POLICIES
        ]
        return role, rights

    def _addon(self, name: str, addon: str, settings: EksCluster, after: list[pulumi.Resource]) -> aws.eks.Addon:
        values = _ADDON_VALUES.get(addon)
        return aws.eks.Addon(
            f"{name}-addon-{addon}",
            cluster_name=self.cluster_name,
            addon_name=addon,
            addon_version=versions.KUBERNETES[settings.kubernetes_version].addons[addon],
            configuration_values=json.dumps(values) if values else None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="PRESERVE",
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _system_pool(self, name: str, args: EksGpuClusterArgs) -> aws.eks.NodeGroup:
        settings, pool = args.settings, args.settings.system
        return managed_nodes(
            f"{name}-system",
            ManagedNodes(
                cluster_name=self.cluster_name,
                kubernetes_version=settings.kubernetes_version,
                node_role_arn=self.node_role_arn,
                subnet_ids=self.subnet_ids,
                ami_type="AL2023_x86_64_STANDARD",
                capacity_type="ON_DEMAND",
                instance_types=pool.instance_types,
                disk=pool.disk,
                labels=system_labels(args.cluster),
                taints=(),
                nodes=pool.nodes,
                tags=args.tags,
                ready=self.before_nodes,
            ),
            parent=self,
        )
