"""An OKE cluster ready for GPU pools: network, enhanced control plane, untainted system pool, OKE's add-ons."""

import ipaddress
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import pulumi
import pulumi_oci as oci
from pydantic import Field

from components.arguments import known, settings, typed
from components.cluster_args import BudgetArgs, EndpointArgs, require_label
from components.component import PackagedComponent, Resources, Text
from components.kubernetes.args import TolerationArgs
from components.kubernetes.provider import kubernetes_provider
from components.oci.addon import declare_addon
from components.oci.governance import budget, home_provider
from components.oci.managed_nodes import managed_nodes, node_metadata
from components.oci.network import OkeNetwork
from components.oci.security import OkeSecurity
from fleet.charts.enablement import Tolerations
from fleet.facts.record import Record
from fleet.facts.scheduling import system_labels
from fleet.providers.oke.addons import PLUGIN_ADDON, AddonVersion
from fleet.providers.oke.bill import SURGE
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.launcher_set import FreeformTags
from fleet.providers.oke.ocid import CompartmentId, ImageId, SubnetId, TenancyId, VcnId, located
from fleet.providers.oke.runners import AnyRunner
from fleet.providers.tags import STACK_TAG
from fleet.settings.model import TagValue
from fleet.settings.runner import SetName

_SERVICES = ("10.96.0.0/16", "10.97.0.0/16")
"""Ranges of Kubernetes services: OKE's default, and the next range for a VCN that overlaps the default."""


class OkeSystemPoolArgs(TypedDict, total=False):
    """The untainted CPU pool of shape VM.Standard.E5.Flex. Controllers, listeners, launchers and CoreDNS run on it."""

    ocpus: int
    """OCPUs of a node, 1 to 94. Default: 2."""
    memory: str
    """Memory of a node in whole Gi, 1Gi to 64Gi for each OCPU. Default: 16Gi."""
    nodes: int
    """Number of nodes, 1 to 100. Default: 2."""
    disk: str
    """Boot volume of a node in whole Gi. Default: 100Gi."""


class OkeGpuClusterArgs(TypedDict):
    """Arguments of OkeGpuCluster. The component's providers must have an OCI provider of `region`.

    The component's name becomes a label of the system nodes: at most 63 letters, digits, '-', '_' and '.'.
    """

    region: str
    """A commercial OCI region, such as us-sanjose-1."""
    zones: list[str]
    """Availability domains of the system nodes, with the tenancy's prefix, such as abcd:US-SANJOSE-1-AD-1."""
    compartment_id: Text
    """OCID of the cluster's compartment."""
    kubernetes_version: str
    """A Kubernetes minor that the component has pinned versions for, such as 1.34."""
    system_image_id: Text
    """OCID of the system nodes' image, in `region`, without GPU driver."""
    endpoint: EndpointArgs
    """Who can reach the API server."""
    cluster_name: NotRequired[str]
    """The cluster's name in OCI. Default: the component's name."""
    vcn_cidr: NotRequired[str]
    """IPv4 range of a new VCN, /16 to /20. Default: 10.0.0.0/16."""
    vcn_id: NotRequired[Text]
    """OCID of an existing VCN. It requires both subnets. Default: a new VCN."""
    endpoint_subnet_id: NotRequired[Text]
    """OCID of an existing subnet for the API endpoint."""
    node_subnet_id: NotRequired[Text]
    """OCID of an existing regional, private subnet for nodes and pods, with a NAT gateway and a service gateway."""
    system: NotRequired[OkeSystemPoolArgs]
    """The pool for everything that needs no GPU."""
    gpu_plugin: NotRequired[bool]
    """Whether OKE's add-on NvidiaGpuPlugin advertises GPUs. Default: true."""
    gpu_plugin_version: NotRequired[str]
    """Version of that add-on, such as v0.18.1. Default: OKE chooses and updates it."""
    gpu_plugin_tolerations: NotRequired[list[TolerationArgs]]
    """Tolerations of that add-on, for nodes with other taints than nvidia.com/gpu. Default: the add-on's own."""
    machine_security_group: NotRequired[bool]
    """Whether VMs that run jobs get a security group. With it they reach the internet only. Default: false."""
    tenancy_id: NotRequired[Text]
    """OCID of the tenancy. Required with `budget` and `quotas`, which belong to the tenancy."""
    home_region: NotRequired[str]
    """The tenancy's home region. OCI accepts budgets and quotas only there. If it is not `region`, the component creates an OCI
    provider for it, with credentials and settings from the environment. Default: `region`."""
    budget: NotRequired[BudgetArgs]
    """A budget for a compartment and those below it. Default: no budget."""
    budget_compartment_id: NotRequired[Text]
    """OCID of the compartment that the budget counts. Default: `compartmentId`."""
    quotas: NotRequired[list[str]]
    """Quota policy statements, such as "set compute-core quota … to 8 in compartment ci". Default: none."""
    tags: NotRequired[dict[str, str]]
    """Free-form tags of all resources that take some, at most 6. Default: only `stackTag`."""
    stack_tag: NotRequired[str]
    """Value of the free-form tag gpu-ci/stack. Default: the name of the stack."""
    protect: NotRequired[bool]
    """Whether Pulumi refuses to delete the control plane. Default: false."""


class OkeClusterSettings(OkeCluster):
    """A cluster without pools and runner sets."""

    provider: Literal["oke"] = "oke"
    runners: dict[SetName, AnyRunner] = Field(default_factory=dict)
    cluster_name: Annotated[str, Field(min_length=1)] | None = None
    gpu_plugin: bool = True
    gpu_plugin_version: AddonVersion | None = None
    gpu_plugin_tolerations: Tolerations = ()
    machine_security_group: bool = False
    quotas: tuple[str, ...] = ()
    tags: FreeformTags = Field(default_factory=dict)
    stack_tag: TagValue | None = None

    @property
    def in_tenancy(self) -> bool:
        return bool(self.quotas) or super().in_tenancy


_OCIDS = {
    "compartmentId": ("compartment", "compartment", CompartmentId),
    "tenancyId": ("tenancy", "tenancy", TenancyId),
    "vcnId": ("network.vcn", "vcn", VcnId),
    "endpointSubnetId": ("network.endpointSubnet", "subnet", SubnetId),
    "nodeSubnetId": ("network.nodeSubnet", "subnet", SubnetId),
}
"""By argument: the path in the settings, and the kind of OCID."""
_NETWORK = ("vcnId", "endpointSubnetId", "nodeSubnetId")


class Read(Record):
    """`settings` have example OCIDs where OCIDs are outputs. The other fields are the real ones.

    `network` has `vcnId`, `endpointSubnetId` and `nodeSubnetId`; it is empty for a
    new VCN.
    """

    settings: OkeClusterSettings
    compartment_id: Text
    system_image_id: Text
    tenancy_id: Text | None
    budget_compartment_id: Text | None
    network: Mapping[str, Text]


class OkeGpuCluster(PackagedComponent[Read]):
    """An OKE cluster for GPU pools: VCN, security groups, control plane, system pool and OKE's add-on for GPUs.

    The cluster is an enhanced one, which add-ons and workload identity require. Pods have addresses of the VCN.
    """

    _paths = MappingProxyType({path: key for key, (path, _, _) in _OCIDS.items()} | {"network.cidr": "vcnCidr"})

    cluster_id: pulumi.Output[str]
    """OCID of the cluster. It is known once the control plane exists."""
    cluster_name: pulumi.Output[str]
    """The name in OCI."""
    kubeconfig: pulumi.Output[str]
    """YAML kubeconfig. Its user signs in with the OCI CLI."""
    vcn_id: pulumi.Output[str]
    """OCID of the VCN."""
    node_subnet_id: pulumi.Output[str]
    """OCID of the subnet of nodes, pods and machines."""
    node_security_group_id: pulumi.Output[str]
    """OCID of the security group of nodes and pods."""
    machine_security_group_id: pulumi.Output[str] | None
    """OCID of the security group of VMs that run jobs. Missing without `machineSecurityGroup`."""

    def __init__(self, name: str, args: OkeGpuClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        require_label(name)
        super().__init__(name, args, opts)

    @classmethod
    def read(cls, inputs: Mapping[str, Any]) -> Read:
        region, compartment, tenancy = inputs["region"], inputs["compartmentId"], inputs.get("tenancyId")
        watched = inputs.get("budgetCompartmentId")
        image = typed("systemImageId", inputs["systemImageId"], located(ImageId, region))
        # What the settings model checks in place of OCIDs that are not known yet.
        ids = {key: known(inputs[key], f"ocid1.{kind}.oc1..example") for key, (_, kind, _) in _OCIDS.items() if key in inputs}
        images = {"system": {"id": known(image, "ocid1.image.oc1..example")}}
        values = settings(OkeClusterSettings, {**inputs, **ids, "nodeImages": images}, cls._paths)
        return Read(
            values,
            typed("compartmentId", compartment, CompartmentId),
            image,
            None if tenancy is None else typed("tenancyId", tenancy, TenancyId),
            None if watched is None else typed("budgetCompartmentId", watched, CompartmentId),
            {key: typed(key, inputs[key], located(_OCIDS[key][2], region)) for key in _NETWORK if key in inputs},
        )

    def declare(self, name: str, args: Read) -> None:
        settings = args.settings
        self._cluster_name = settings.cluster_name or name
        self._tags = {STACK_TAG: settings.stack_tag or pulumi.get_stack()} | settings.tags
        # Older versions created it outside of the component.
        earlier = pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)
        self.home_provider = home_provider(name, settings.home_region, settings.region, self._below(aliases=[earlier]))
        """The provider of the tenancy's home region; None if that is the cluster's region."""
        self._govern(name, args)
        vcn_id, node_subnet_id, endpoint_subnet_id = self._network(name, args)
        opts, machines = self._below(*self._after), settings.machine_security_group
        security = OkeSecurity(f"{name}-security", opts, settings, args.compartment_id, vcn_id, machines, self._tags)
        self.node_security_group_id, self.machine_security_group_id = security.workers_id, security.machines_id
        self.vcn_id = pulumi.Output.from_input(vcn_id)
        self.node_subnet_id = pulumi.Output.from_input(node_subnet_id)
        control_plane = self._control_plane(name, args, endpoint_subnet_id, security.api_id)
        self.cluster_id, self.cluster_name = control_plane.id, control_plane.name
        self.kubeconfig = self._kubeconfig(settings)
        self.kubernetes_provider = kubernetes_provider(name, self._cluster_name, kubeconfig=self.kubeconfig, parent=self)
        self.before_nodes: Resources = security.rules
        """These must exist before a node can join."""
        self.before_machines: Resources = security.machine_rules
        """What a machine that runs jobs needs to reach the internet."""
        system = self._system_pool(name, args)
        self.ready: Resources = (system, *security.rules)
        """These must exist before a chart: system nodes and access to the API. Every cluster has CoreDNS."""
        if settings.gpu_plugin:
            self._gpu_plugin(name, settings)

    def _govern(self, name: str, args: Read) -> None:
        """Budget and quotas, if the settings have them."""
        settings, called = args.settings, self._cluster_name
        if args.tenancy_id is None:
            return
        opts = self._below(provider=self.home_provider)
        if settings.budget is not None:
            watched = args.compartment_id if args.budget_compartment_id is None else args.budget_compartment_id
            budget(name, settings.budget, watched, args.tenancy_id, called=called, tags=self._tags, opts=opts)
        if settings.quotas:
            # For all users together, no more GPUs than the fleet uses. Running instances stay.
            of_tenancy = {"compartment_id": args.tenancy_id, "freeform_tags": self._tags, "opts": opts}
            about, statements = f"GPUs that {called} takes at most", list(settings.quotas)
            oci.limits.Quota(f"{name}-quotas", description=about, statements=statements, **of_tenancy)

    def _network(self, name: str, args: Read) -> tuple[Text, Text, Text]:
        """OCIDs of the VCN, the node subnet and the endpoint subnet."""
        if existing := args.network:
            return existing["vcnId"], existing["nodeSubnetId"], existing["endpointSubnetId"]
        network = OkeNetwork(f"{name}-network", self._below(*self._after), args.settings, args.compartment_id, self._tags)
        return network.vcn_id, network.node_subnet_id, network.endpoint_subnet_id

    def _control_plane(self, name: str, args: Read, subnet_id: Text, group_id: Text) -> oci.containerengine.Cluster:
        settings, private = args.settings, args.settings.endpoint.private
        return oci.containerengine.Cluster(
            f"{name}-control-plane",
            name=self._cluster_name,
            compartment_id=args.compartment_id,
            kubernetes_version=settings.kubernetes,
            type="ENHANCED_CLUSTER",
            vcn_id=self.vcn_id,
            cluster_pod_network_options=[{"cni_type": "OCI_VCN_IP_NATIVE"}],
            endpoint_config={"subnet_id": subnet_id, "is_public_ip_enabled": not private, "nsg_ids": [group_id]},
            options={
                "add_ons": {"is_kubernetes_dashboard_enabled": False, "is_tiller_enabled": False},
                "kubernetes_network_config": {"services_cidr": services_cidr(settings)},
            },
            freeform_tags=self._tags,
            opts=self._below(*self._after, protect=settings.protect),
        )

    def _kubeconfig(self, settings: OkeCluster) -> pulumi.Output[str]:
        """Read from OKE, because only OKE knows the cluster's CA. Unknown until the cluster exists."""
        endpoint = "PRIVATE_ENDPOINT" if settings.endpoint.private else "PUBLIC_ENDPOINT"
        opts, version = pulumi.InvokeOutputOptions(parent=self), "2.0.0"
        file = oci.containerengine.get_cluster_kube_config_output(self.cluster_id, endpoint, token_version=version, opts=opts)
        return cast("pulumi.Output[str]", file.content)

    def _system_pool(self, name: str, args: Read) -> oci.containerengine.NodePool:
        settings, pool = args.settings, args.settings.system
        return managed_nodes(
            f"{name}-system",
            parent=self,
            cluster_id=self.cluster_id,
            compartment=args.compartment_id,
            kubernetes_version=settings.kubernetes,
            machine=pool.machine,
            image=args.system_image_id,
            disk=pool.disk,
            subnet_id=self.node_subnet_id,
            group_id=self.node_security_group_id,
            places=[(zone, None) for zone in settings.zones],
            labels=system_labels(name),
            size=pool.nodes,
            tags=self._tags,
            ready=self.before_nodes,
            metadata=node_metadata(),
            surge=SURGE,
        )

    def _gpu_plugin(self, name: str, settings: OkeClusterSettings) -> None:
        """OKE's device plugin. If another one advertises the GPUs, a label of the pools keeps OKE's off their nodes."""
        tolerations = json.dumps([toleration.manifest() for toleration in settings.gpu_plugin_tolerations])
        values = {"tolerations": tolerations} if settings.gpu_plugin_tolerations else {}
        version, opts = settings.gpu_plugin_version, self._below(*self.ready)
        declare_addon(f"{name}-gpu-plugin", self.cluster_id, PLUGIN_ADDON, version, values, opts)


def services_cidr(settings: OkeCluster) -> str:
    """The range of Kubernetes services: OKE's default, or the next one if a new VCN would overlap it."""
    if settings.own_cidr is None:
        return _SERVICES[0]
    vcn = ipaddress.ip_network(settings.own_cidr)
    return next(cidr for cidr in _SERVICES if not vcn.overlaps(ipaddress.ip_network(cidr)))
