"""A GPU pool on EKS: one managed node group per zone."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict, cast

import pulumi
import pulumi_aws as aws
from pydantic import Field

from components.arguments import checked, require, settings, typed
from components.component import PackagedComponent, Text
from components.eks.launch import interfaces, launch_template
from components.eks.live_sizes import LiveSizes
from components.eks.managed_nodes import CUSTOM, managed_nodes
from components.generations import Generations, Suffix
from components.kubernetes.args import SharingArgs
from fleet.facts import scheduling
from fleet.facts.bill import written
from fleet.facts.hardware import CAPACITY_BLOCK
from fleet.facts.offer import allocatable, least
from fleet.facts.record import Record
from fleet.facts.xid import GPU_CONDITION, REASONS
from fleet.providers.eks.cluster import EksVersion, Principal, SubnetId
from fleet.providers.eks.groups import zone_actions, zone_groups
from fleet.providers.eks.node_config import joining_spec, user_data
from fleet.providers.eks.nodes import AmiId, EksPool
from fleet.providers.tags import AWS_TAGS, fixed_tags
from fleet.settings.alerts import Share
from fleet.settings.health import Health, RepairWait, nodes_at_once
from fleet.settings.model import LabelValue, Scale, TagKey, TagValue, go_duration
from fleet.settings.pool import offered

CAPACITY_TYPE = {"on-demand": "ON_DEMAND", "spot": "SPOT", "reserved": "ON_DEMAND", "capacity-block": "CAPACITY_BLOCK"}
"""Our capacity types in the EKS API's spelling; machines in a capacity reservation are bought on demand."""


class ReservationArgs(TypedDict):
    """An EC2 capacity reservation or capacity block."""

    id: str
    """Its id, such as cr-0123456789abcdef0."""
    zone: str
    """Its availability zone."""
    count: int
    """The number of its machines."""
    start_date: NotRequired[str]
    """The day on which it starts, such as 2027-03-13."""
    owner: NotRequired[str]
    """The AWS account that shares it, if that is another one."""
    end_date: NotRequired[str]
    """The day on which it ends, such as 2027-03-20."""


class PlacementGroupArgs(TypedDict, total=False):
    """A new placement group with a strategy, or an existing one by its name."""

    strategy: str
    """cluster, spread or partition."""
    partitions: int
    """Partitions in each zone, 1 to 7, with the strategy partition."""
    name: str
    """Name of an existing placement group."""


class DiskPerformanceArgs(TypedDict, total=False):
    """Performance of a gp3 root disk. What is above the defaults costs extra."""

    throughput: int
    """MiB/s, 125 to 2,000, and at most a quarter of `iops`. Default: 125."""
    iops: int
    """IOPS, 3,000 to 80,000, and at most 500 per GiB of the disk. Default: 3,000."""


class WarmPoolArgs(TypedDict):
    """Machines that have booted once and wait outside of the cluster."""

    min: NotRequired[int]
    """Machines that always wait, however many nodes are in the cluster. Default: 0."""
    max_prepared: int
    """Nodes in the cluster and waiting machines together, at most."""
    state: NotRequired[str]
    """stopped or running. Default: stopped."""
    reuse_on_scale_in: NotRequired[bool]
    """Whether a node that the autoscaler removes waits again. Default: false."""


class ScheduleWindowArgs(TypedDict):
    """A part of the week in which the pool keeps more nodes."""

    days: list[str]
    """Days on which it starts: mon, tue, wed, thu, fri, sat, sun."""
    start: str
    """Local time, such as 09:00."""
    end: str
    """Local time, such as 18:00. If it is not after `start`, the window ends on the next day."""
    nodes: int
    """Nodes that the pool keeps, working or not."""


class SchedulesArgs(TypedDict):
    """Windows of the week in which the pool has a larger minimum, as scheduled actions of EC2 Auto Scaling."""

    time_zone: str
    """IANA time zone, such as America/Los_Angeles."""
    holidays: NotRequired[list[str]]
    """Days on which no window starts, such as 2026-12-25. EC2 repeats them each year. Default: none."""
    windows: dict[str, ScheduleWindowArgs]
    """1 to 3 windows by name. They do not overlap."""


class GpuNodeGroupArgs(TypedDict):
    """Arguments of GpuNodeGroup. The component's providers must have an AWS provider of the cluster's region.

    What a node needs to join belongs in the option `dependsOn`: the add-ons vpc-cni and kube-proxy, and the rights of its role.
    """

    cluster_name: Text
    """Name of the EKS cluster."""
    kubernetes_version: str
    """The cluster's Kubernetes minor, such as 1.36. It decides the version of the node image."""
    node_role_arn: Text
    """ARN of the IAM role of the nodes. The cluster needs an access entry for it."""
    subnet_ids: dict[str, Text]
    """Ids of the nodes' subnets by availability zone; an id may be an output. Each zone is a node group; the nodes split over
    them in this order."""
    instance_types: list[str]
    """EC2 instance types with the same GPUs, or all without."""
    min_nodes: NotRequired[int]
    """Least nodes of all groups together. Default: 0."""
    max_nodes: int
    """Most nodes of all groups together."""
    capacity_type: NotRequired[str]
    """on-demand, spot, reserved or capacity-block. Default: on-demand."""
    reservation: NotRequired[ReservationArgs]
    """The reservation of the types reserved and capacity-block."""
    role: NotRequired[str]
    """burst, release or fallback. Release and fallback pools are never spot. Default: burst."""
    disk: NotRequired[str]
    """Root volume of a node, in Mi or Gi. Default: 200Gi."""
    disk_performance: NotRequired[DiskPerformanceArgs]
    """Throughput and IOPS of the root volume. Default: 125 MiB/s and 3,000 IOPS. A change replaces the nodes."""
    idle_delay: NotRequired[str]
    """How long the autoscaler keeps an idle node, such as 10m. Default: 10m."""
    labels: NotRequired[dict[str, str]]
    """More node labels, at most 25."""
    cdi: NotRequired[bool]
    """Whether containers get GPUs by the Container Device Interface. Default: false."""
    sharing: NotRequired[SharingArgs]
    """How containers share a GPU. Default: a container gets whole GPUs."""
    node_config: NotRequired[dict[str, Any]]
    """Settings of nodeadm: kubelet, containerd, instance and featureGates, as docs/eks-nodes.md lists them."""
    efa_interfaces: NotRequired[int]
    """Elastic Fabric Adapters of a node. Default: 0."""
    placement_group: NotRequired[PlacementGroupArgs]
    """Where EC2 places the nodes. Default: anywhere in the zone."""
    ami_id: NotRequired[str]
    """Id of an AMI of your own, made from AWS' AL2023 image for NVIDIA GPUs. It needs `clusterEndpoint`,
    `clusterCertificateAuthority` and `serviceCidr`. Default: AWS' image."""
    cluster_endpoint: NotRequired[Text]
    """https address of the cluster's API server."""
    cluster_certificate_authority: NotRequired[Text]
    """The cluster's certificate authority, in base64 as EKS returns it."""
    service_cidr: NotRequired[Text]
    """Address range of the cluster's services, such as 172.20.0.0/16."""
    warm: NotRequired[WarmPoolArgs]
    """The warm pool of the nodes, split over the zones as the nodes are. Default: none."""
    schedules: NotRequired[SchedulesArgs]
    """Windows with a larger minimum. Their actions then own minimum and maximum: a change of these reaches existing node groups
    when the next window starts or ends. Default: none."""
    startup_gate: NotRequired[bool]
    """Whether new nodes have the startup taint gpu-ci-gpus. A program of yours must remove it once a node offers all its GPUs.
    Default: false."""
    repair_wait: NotRequired[str]
    """How long a GPU error lasts before EKS reboots or replaces the node, such as 5m. Default: 5m."""
    max_share: NotRequired[float]
    """Share of a node group's nodes above which EKS repairs none, at least one node. Default: 0.2."""
    security_group_id: NotRequired[Text]
    """The cluster's own security group. Nodes with `efaInterfaces` need it."""
    cluster_label: NotRequired[str]
    """Value of the node label and tag gpu-ci/cluster. Default: `clusterName`, which must then be known."""
    pool_name: NotRequired[str]
    """Value of the node label and tag gpu-ci/pool. Default: the component's name."""
    flavor: NotRequired[str]
    """Value of the node label gpu-ci/flavor: the flavor of Kueue that has this pool and others. Default: no label."""
    stack_tag: NotRequired[str]
    """Value of the tag gpu-ci/stack of instances, volumes and interfaces. A change replaces the nodes. Default: the name of the
    stack."""
    tags: NotRequired[dict[str, str]]
    """Tags of the owner for new instances. A change replaces no node. Default: none."""


class NodeGroupSettings(EksPool):
    kubernetes_version: EksVersion
    cluster_label: LabelValue
    pool_name: LabelValue
    flavor: LabelValue | None = None
    stack_tag: TagValue | None = None
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=AWS_TAGS.most)] = Field(default_factory=dict)
    image_id: Annotated[AmiId | None, Field(alias="amiId")] = None
    startup_gate: bool = False
    repair_wait: RepairWait = Health.model_fields["repair_wait"].default
    max_share: Share = Health.model_fields["max_share"].default


_JOINING = ("clusterEndpoint", "clusterCertificateAuthority", "serviceCidr")
"""What the user data of an image of your own must have besides the cluster's name. EKS adds it for its own image alone."""
_NAMES = {"capacity": "capacityType", "nodes.min": "minNodes", "nodes.max": "maxNodes", "zones": "subnetIds"}


class Read(Record):
    """The settings of a pool, and the values that may be outputs.

    `subnet_ids` are by zone. Those of `_JOINING` are None for AWS' image. `live` are the sizes in AWS; without it the
    autoscaler's size alone is left alone. `generations` are those of the stack.
    """

    settings: NodeGroupSettings
    cluster_name: Text
    node_role_arn: Text
    subnet_ids: Mapping[str, Text]
    security_group_id: Text | None = None
    cluster_endpoint: Text | None = None
    cluster_certificate_authority: Text | None = None
    service_cidr: Text | None = None
    live: LiveSizes | None = None
    generations: Generations = field(default_factory=Generations)


class GpuNodeGroup(PackagedComponent[Read]):
    """A launch template, and in each zone of the pool a node group with the GPU taint; for types without GPU, with the taint
    gpu-ci/cpu and AWS' plain image.

    All groups share the template, the labels and the taint, so a pod sees one pool. A zone that is added or removed adds or
    removes its group; where the sizes of the other groups change, they are updated in place.
    """

    _paths = _NAMES

    node_group_names: pulumi.Output[dict[str, str]]
    """Names of the node groups by zone."""
    node_labels: pulumi.Output[dict[str, str]]
    """Labels of the nodes, for node selectors."""

    def __init__(self, name: str, args: GpuNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, {"pool_name": name, **args}, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> Read:
        subnets, cluster_name, group = inputs["subnetIds"], inputs["clusterName"], inputs.get("securityGroupId")
        require(bool(subnets), "subnetIds", "a pool without a zone has no nodes; add a subnet by its availability zone")
        for zone, subnet in subnets.items():
            if isinstance(subnet, str):
                typed(f"subnetIds.{zone}", subnet, SubnetId)
        plain = {"capacityType": "on-demand", "role": "burst"} | inputs
        # A reserved pool is in the zone of its reservation, which is a setting of its own.
        plain["subnetIds"] = [] if "reservation" in inputs else list(subnets)
        if isinstance(cluster_name, str):
            plain.setdefault("clusterLabel", cluster_name)
        pool = settings(NodeGroupSettings, plain, cls._paths)
        zones = [pool.reservation.zone] if pool.reservation is not None else list(subnets)
        require(zones[0] in subnets, "subnetIds", f"the reservation is in {zones[0]}; add the subnet of that zone")
        fix = "EFA interfaces need the security group of the cluster; add it"
        require(not pool.efa_interfaces or group is not None, "securityGroupId", fix)
        joins = [key for key in _JOINING if key in inputs]
        fix = "nodes with an AMI of your own need it to join the cluster, because EKS adds nothing; add it"
        for key in _JOINING:
            require(pool.image_id is not None or key not in joins, key, "AWS' image gets it from EKS; remove it, or add amiId")
            require(pool.image_id is None or key in joins, key, fix)
        if isinstance(arn := inputs["nodeRoleArn"], str):
            typed("nodeRoleArn", arn, Principal)
        else:
            fix = "not an ARN; pass the arn of the role, not its name or id"
            arn = checked("nodeRoleArn", arn, lambda text: text.startswith("arn:"), fix)
        return Read(pool, cluster_name, arn, {zone: subnets[zone] for zone in zones}, group, *(inputs[key] for key in joins))

    def declare(self, name: str, args: Read) -> None:
        pool, zones = args.settings, tuple(args.subnet_ids)
        labels = pool.node_labels(pool.cluster_label, pool.pool_name, scheduling.EKS_PROFILE, pool.flavor or "")
        gate = (scheduling.STARTUP_GATE,) if pool.startup_gate and pool.has_gpus else ()
        taints = (*pool.node_taints(scheduling.EKS_PROFILE), *gate)
        # Groups without room for the digits in their names are replaced or rolled by EKS, and so their template has none.
        fits = all(scheduling.has_generations(f"{name}-{zone}-nodes") for zone in zones)
        suffix = args.generations.suffix if fits else lambda *_: ""
        template = self.template = self._template(name, args, labels, taints, suffix)
        """The launch template of all groups."""
        node_group = partial(
            managed_nodes,
            parent=self,
            live=args.live,
            ready=self._after,
            kubernetes_version=pool.kubernetes_version,
            ami_type=CUSTOM if pool.image_id else f"AL2023_x86_64_{'NVIDIA' if pool.has_gpus else 'STANDARD'}",
            # EKS reads the type of a capacity block from the template.
            instance_types=() if pool.capacity == CAPACITY_BLOCK else pool.instance_types,
            template=template,
            labels=labels,
            taints=taints,
            owner_tags=pool.tags,
            idle_delay=go_duration(pool.idle_delay),
            time_zone=pool.schedules.time_zone if pool.schedules is not None else None,
            reserved=pool.reservation is not None,
            suffix=suffix,
            made_of=template.pulumi_resource_name,
            cluster_name=args.cluster_name,
            node_role_arn=args.node_role_arn,
            capacity_type=CAPACITY_TYPE[pool.capacity],
            tags=_tags(pool),
        )
        sizes = zone_groups(zones, pool.nodes)
        shares = pool.warm.shares(sizes) if pool.warm is not None else {}
        actions = zone_actions(pool.schedules, zones, pool.nodes) if pool.schedules is not None else {}
        self.groups = {
            zone: node_group(
                f"{name}-{zone}",
                [args.subnet_ids[zone]],
                nodes,
                actions=actions.get(zone, ()),
                node_repair_config=_repair(pool, nodes),
                warm_pool_config=_warm_pool(pool, shares.get(zone)),
            )
            for zone, nodes in sizes.items()
        }
        """The node groups by zone."""
        self.node_group_names = pulumi.Output.all(**{zone: group.node_group_name for zone, group in self.groups.items()})
        self.node_labels = pulumi.Output.from_input(labels)

    @property
    def generation(self) -> str:
        """The digits of the generations of its groups, "" for the first one."""
        return "".join(sorted({group.pulumi_resource_name.partition("-nodes")[2] for group in self.groups.values()})).strip("-")

    def _template(
        self, name: str, args: Read, labels: Mapping[str, str], taints: Sequence[scheduling.Taint], suffix: Suffix
    ) -> aws.ec2.LaunchTemplate:
        """The launch template of all groups."""
        pool, reservation, group = args.settings, args.settings.reservation, self._placement_group(name, args.settings)
        block, adapters = pool.capacity == CAPACITY_BLOCK, pool.efa_interfaces
        return launch_template(
            f"{name}-launch",
            pool.disk,
            fixed_tags(pool.stack_tag or pulumi.get_stack(), pool.cluster_label, pool.pool_name),
            parent=self,
            performance=pool.disk_performance,
            reservation=reservation.id if reservation is not None else None,
            suffix=suffix,
            # With an image of your own the user data has what the control plane alone knows.
            more=[pool.node_config, labels, taints] if pool.image_id else None,
            image_id=pool.image_id,
            user_data=_user_data(args, labels, taints),
            # EKS reads the type of a capacity block from the template, and refuses a second one on the group (EKS user guide,
            # managed node groups with Capacity Blocks).
            instance_type=pool.instance_types[0] if block else None,
            instance_market_options={"market_type": "capacity-block"} if block else None,
            network_interfaces=interfaces(pool.machines[0], adapters, args.security_group_id) if adapters else None,
            placement={"group_name": group} if group else None,
        )

    def _placement_group(self, name: str, pool: EksPool) -> Text | None:
        """The name of a pool's placement group: of an existing one, or of the new one `<name>-placement`. None without one."""
        if (group := pool.placement_group) is None or group.name is not None:
            return group.name if group else None
        kind = {"strategy": group.strategy, "partition_count": group.partitions}
        return cast("Text", aws.ec2.PlacementGroup(f"{name}-placement", **kind, opts=self._child).name)


def _repair(pool: NodeGroupSettings, nodes: Scale) -> dict[str, Any]:
    """EKS replaces a node that stays unready, and repairs one whose GPU the monitoring agent reports broken.

    By default it has no limit for a group of five nodes, so a wrong report could replace all of them.
    """
    most = nodes_at_once(pool.max_share, nodes.max)
    limits = {"enabled": True, "max_unhealthy_node_threshold_count": most, "max_parallel_nodes_repaired_count": 1}
    if not pool.has_gpus:
        return limits
    every = {"node_monitoring_condition": GPU_CONDITION, "min_repair_wait_time_mins": pool.repair_wait // 60}
    repairs = [{**every, "node_unhealthy_reason": row.reason, "repair_action": row.ours} for row in REASONS]
    return {**limits, "node_repair_config_overrides": repairs}


def _warm_pool(pool: EksPool, share: Scale | None) -> dict[str, Any] | None:
    """The block enables the warm pool, and without it EKS removes the pool. Without a maximum EC2 would fill it.

    `share` are the least and the most machines of one group, None if it has no share.
    """
    if pool.warm is None or share is None:
        return None
    sizes = {"min_size": share.min, "max_group_prepared_capacity": share.max}
    return {**sizes, "pool_state": pool.warm.state.upper(), "reuse_on_scale_in": pool.warm.reuse_on_scale_in}


def _user_data(args: Read, labels: Mapping[str, str], taints: Sequence[scheduling.Taint]) -> Text | None:
    """The user data in base64, None if there is none."""
    config = args.settings.node_config
    if args.settings.image_id is None:
        return _base64(user_data(config)) if config else None

    def joined(values: Sequence[str | None]) -> str:
        # A simulated cloud may return None.
        name, endpoint, authority, cidr = (value or "" for value in values)
        return _base64(user_data(config, joining_spec(name, endpoint, authority, cidr, labels, taints)))

    known = (args.cluster_name, args.cluster_endpoint, args.cluster_certificate_authority, args.service_cidr)
    return cast("Text", pulumi.Output.all(*known).apply(joined))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _tags(pool: EksPool) -> dict[str, str]:
    offer = least(allocatable(machine, pool.disk) for machine in pool.machines)
    # The autoscaler's own table has whole GPUs, also where the nodes advertise shares of another name.
    units = {scheduling.GPU_RESOURCE: 0, pool.resource: min(map(pool.units, pool.machines))} if pool.has_gpus else {}
    reserved = {scheduling.RESERVED_NODES_TAG: str(pool.reservation.count)} if pool.reservation else {}
    block = {scheduling.BLOCK_TYPE_TAG: pool.instance_types[0]} if pool.capacity == CAPACITY_BLOCK else {}
    scheduled = {scheduling.SCHEDULED_NODES_TAG: written(pool.schedules.kept)} if pool.schedules is not None else {}
    return scheduling.resource_tags(offered(offer, units)) | reserved | block | scheduled
