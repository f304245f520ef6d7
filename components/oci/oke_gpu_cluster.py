"""An OKE cluster ready for GPU pools: network, enhanced control plane, untainted system pool, OKE's add-ons."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci

from components.component import Component
from components.oci.governance import govern
from components.oci.managed_nodes import Flex, NodePlace, OkeNodes, managed_nodes
from components.oci.network import OkeNetwork, OkeNetworkArgs
from components.oci.security import OkeSecurity, OkeSecurityArgs
from fleet.facts.hardware import flexible
from fleet.facts.offer import allocatable
from fleet.facts.scheduling import OKE_PROFILE, system_labels
from fleet.providers.oke.addons import PLUGIN_ADDON
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.settings.enablement import GPU_PLUGIN_ADDON

_SERVICES = ("10.96.0.0/16", "10.97.0.0/16")
"""Ranges of Kubernetes services: OKE's default, and the next range for a VCN that overlaps the default."""


@dataclass(frozen=True, slots=True)
class OkeGpuClusterArgs:
    """`cluster` is the cluster's name in the settings, `physical_name` its name in OCI.

    `iam` is the provider of the tenancy's home region. `quotas` are quota statements.
    """

    cluster: str
    physical_name: str
    settings: OkeCluster
    tags: dict[str, str]
    iam: pulumi.ProviderResource
    quotas: Sequence[str] = ()


class OkeGpuCluster(Component[OkeGpuClusterArgs]):
    """An enhanced cluster, which add-ons and workload identity require. Pods have addresses of the VCN."""

    cluster_id: pulumi.Output[str]
    """OCID, known once the control plane exists."""
    kubeconfig: pulumi.Output[str]
    """YAML kubeconfig; its credentials come from the OCI CLI of whoever uses it."""
    node_subnet_id: pulumi.Input[str]
    """The subnet of nodes, pods and machines."""
    vcn_id: pulumi.Input[str]
    workers_id: pulumi.Output[str]
    """Security group of nodes and pods."""
    machines_id: pulumi.Output[str] | None
    """Security group of VMs that run jobs; None if no runner set has any."""

    def declare(self, name: str, args: OkeGpuClusterArgs) -> dict[str, Any]:
        settings = args.settings
        govern(name, settings, args.quotas, called=args.physical_name, tags=args.tags, iam=args.iam, parent=self)
        self.vcn_id, self.node_subnet_id, endpoint_subnet_id = self._network(name, args)
        security = OkeSecurity(
            f"{name}-security",
            OkeSecurityArgs(
                compartment=settings.compartment,
                vcn_id=self.vcn_id,
                api_sources=api_sources(settings),
                closed=settings.closed_networks,
                # CNCF's launcher has no setting for security groups.
                machines=any(runner.booted_here for _, runner in settings.machine_runners()),
                tags=args.tags,
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.workers_id, self.machines_id = security.workers_id, security.machines_id
        control_plane = self._control_plane(name, args, endpoint_subnet_id, security.api_id)
        self.cluster_id = control_plane.id
        self.kubeconfig = self._kubeconfig(settings)
        self.kubernetes_provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it any change of the kubeconfig would replace every object in the cluster.
            cluster_identifier=args.physical_name,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.before_nodes: tuple[pulumi.Resource, ...] = security.rules
        """These must exist before a node can join."""
        self.before_machines: tuple[pulumi.Resource, ...] = security.machine_rules
        """What a machine that runs jobs needs to reach the internet."""
        system = self._system_pool(name, args)
        self.ready: tuple[pulumi.Resource, ...] = (system, *security.rules)
        """These must exist before a chart: system nodes and access to the API. Every cluster has CoreDNS."""
        if settings.enablement == GPU_PLUGIN_ADDON:
            self._gpu_plugin(name, settings)
        return {
            "clusterId": self.cluster_id,
            "kubeconfig": self.kubeconfig,
            "nodeSubnetId": self.node_subnet_id,
            "workersId": self.workers_id,
            "machinesId": self.machines_id,
        }

    def _network(self, name: str, args: OkeGpuClusterArgs) -> tuple[pulumi.Input[str], pulumi.Input[str], pulumi.Input[str]]:
        """OCIDs of the VCN, the node subnet and the endpoint subnet."""
        given, settings = args.settings.network, args.settings
        if given.vcn is not None and given.node_subnet is not None and given.endpoint_subnet is not None:
            return given.vcn, given.node_subnet, given.endpoint_subnet
        network = OkeNetwork(
            f"{name}-network",
            OkeNetworkArgs(settings.compartment, given.new_cidr, settings.endpoint.private, args.tags),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return network.vcn_id, network.node_subnet_id, network.endpoint_subnet_id

    def _control_plane(
        self, name: str, args: OkeGpuClusterArgs, subnet_id: pulumi.Input[str], group_id: pulumi.Input[str]
    ) -> oci.containerengine.Cluster:
        settings = args.settings
        return oci.containerengine.Cluster(
            f"{name}-control-plane",
            name=args.physical_name,
            compartment_id=settings.compartment,
            kubernetes_version=settings.kubernetes,
            type="ENHANCED_CLUSTER",
            vcn_id=self.vcn_id,
            cluster_pod_network_options=[oci.containerengine.ClusterClusterPodNetworkOptionArgs(cni_type="OCI_VCN_IP_NATIVE")],
            endpoint_config=oci.containerengine.ClusterEndpointConfigArgs(
                subnet_id=subnet_id, is_public_ip_enabled=not settings.endpoint.private, nsg_ids=[group_id]
            ),
            options=oci.containerengine.ClusterOptionsArgs(
                add_ons=oci.containerengine.ClusterOptionsAddOnsArgs(
                    is_kubernetes_dashboard_enabled=False, is_tiller_enabled=False
                ),
                kubernetes_network_config=oci.containerengine.ClusterOptionsKubernetesNetworkConfigArgs(
                    services_cidr=services_cidr(settings)
                ),
            ),
            freeform_tags=args.tags,
            opts=pulumi.ResourceOptions(parent=self, protect=settings.protect),
        )

    def _kubeconfig(self, settings: OkeCluster) -> pulumi.Output[str]:
        """Read from OKE, because only OKE knows the cluster's CA. Unknown until the cluster exists."""
        found = oci.containerengine.get_cluster_kube_config_output(
            cluster_id=self.cluster_id,
            endpoint="PRIVATE_ENDPOINT" if settings.endpoint.private else "PUBLIC_ENDPOINT",
            token_version="2.0.0",  # noqa: S106 - a format, not a token
            opts=pulumi.InvokeOutputOptions(parent=self),
        )
        content: pulumi.Output[str] = found.content
        return content

    def _system_pool(self, name: str, args: OkeGpuClusterArgs) -> oci.containerengine.NodePool:
        settings, pool = args.settings, args.settings.system
        return managed_nodes(
            f"{name}-system",
            OkeNodes(
                cluster_id=self.cluster_id,
                compartment=settings.compartment,
                kubernetes_version=settings.kubernetes,
                shape=FLEX_SHAPE,
                flex=Flex(pool.ocpus, pool.memory // 1024),
                image=settings.node_images["system"].id,
                disk=pool.disk,
                subnet_id=self.node_subnet_id,
                group_id=self.workers_id,
                places=[NodePlace(zone) for zone in settings.zones],
                labels=system_labels(args.cluster),
                max_pods=allocatable(flexible(FLEX_SHAPE, pool.ocpus, pool.memory), pool.disk).pods,
                size=pool.nodes,
                tags=args.tags,
                ready=self.before_nodes,
                surge=1,
            ),
            parent=self,
        )

    def _gpu_plugin(self, name: str, settings: OkeCluster) -> None:
        """OKE's device plugin. If another one advertises the GPUs, a label of the pools keeps OKE's off their nodes."""
        spot = any(pool.capacity == "spot" for pool in settings.pools.values())
        tolerations = json.dumps([toleration.manifest() for toleration in OKE_PROFILE.tolerations])
        oci.containerengine.Addon(
            f"{name}-gpu-plugin",
            addon_name=PLUGIN_ADDON,
            version=settings.addon_versions.get(PLUGIN_ADDON),
            cluster_id=self.cluster_id,
            # It knows the GPU taint by itself, not the one of preemptible nodes.
            configurations=[oci.containerengine.AddonConfigurationArgs(key="tolerations", value=tolerations)] if spot else None,
            override_existing=True,
            remove_addon_resources_on_delete=True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(self.ready)),
        )


def api_sources(settings: OkeCluster) -> tuple[str, ...]:
    """Networks that may use the API: the public CIDRs, or for a private endpoint its sources, by default the new VCN."""
    return settings.endpoint.public_cidrs or settings.endpoint.private_sources(settings.own_cidr)


def services_cidr(settings: OkeCluster) -> str:
    """The range of Kubernetes services: OKE's default, or the next one if a new VCN would overlap it."""
    if settings.own_cidr is None:
        return _SERVICES[0]
    vcn = ipaddress.ip_network(settings.own_cidr)
    return next(cidr for cidr in _SERVICES if not vcn.overlaps(ipaddress.ip_network(cidr)))
