"""The GPU pools of an EKS cluster."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts.disks import FAST_PULL_MIBPS, GP3_IOPS_PER_GIB, ebs_mibps, gp3_on
from fleet.facts.hardware import CAPACITY_BLOCK, PREPAID, RESERVED, SPOT, Machine, machines
from fleet.facts.remark import todo
from fleet.providers.eks.groups import WarmPool
from fleet.providers.eks.node_config import NodeConfig
from fleet.providers.eks.node_options import DiskPerformance, PlacementGroup
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.model import Day, Nodes, matching, problem, refusal, require_once
from fleet.settings.pool import NodeType, Pool, Reservation, require_local_disks

MOST_IN_BLOCK = 64
"""Machines of one capacity block (EC2 user guide, how Capacity Blocks work)."""


_AMI_ID = r"ami-[0-9a-f]{8,17}"
AmiId = Annotated[str, matching("ami_id", "not the id of an AMI; write ami-… as AWS shows it", _AMI_ID)]
_AMI_NAME_RULE = (
    "the name of an AMI has lower-case letters, digits and hyphens, at most 27, and does not start with ami-; rename it"
)
AmiName = Annotated[str, matching("ami_name", _AMI_NAME_RULE, r"(?!ami-)[a-z]([-a-z0-9]*[a-z0-9])?", most=27)]
_POOL_AMI = rf"{_AMI_ID}|(?!ami-)[a-z][-a-z0-9]*"
PoolAmi = Annotated[str, matching("pool_ami", "neither an entry of amis nor the id of an AMI; write one of them", _POOL_AMI)]


class EksReservation(Reservation):
    """An EC2 capacity reservation or capacity block."""

    start_date: Day | None = None
    """The day on which the reservation starts, as AWS shows it. Default: it has started."""
    end_date: Day | None = None
    """The day on which the reservation or block ends, as AWS shows it."""
    owner: Annotated[str, matching("owner", "not an AWS account; write its 12 digits in quotes", r"[0-9]{12}")] | None = None
    """The AWS account that shares the reservation through AWS RAM, in quotes. Default: the account of the cluster."""

    @property
    def last_day(self) -> str | None:
        """As in the base class."""
        return self.end_date

    def closed(self, day: date) -> str:
        """Why no machine of it starts on a day; empty if one may."""
        if self.start_date is not None and day.isoformat() < self.start_date:
            return f"its reservation starts on {self.start_date}"
        over = self.end_date is not None and self.end_date < day.isoformat()
        return f"its reservation ended on {self.end_date}" if over else ""

    @refusal
    def _dates(self) -> None:
        """Refuse an end before the start."""
        if self.start_date is not None and self.end_date is not None and self.end_date < self.start_date:
            message = f"it starts after that day, on {self.start_date}; correct one of them"
            raise problem("reservation_dates", message, at=("endDate",))


class EksPool(Pool):
    """A pool of EC2 types with GPUs or without, as one managed node group per zone."""

    MANAGERS_AT: ClassVar[tuple[str, ...]] = ("nodeConfig", "kubelet", "config")

    ALWAYS_GPUS: ClassVar[bool] = False
    OF_GPUS: ClassVar[tuple[str, ...]] = ("image", "ami", "efa_interfaces")

    instance_types: Annotated[tuple[NodeType, ...], Field(min_length=1)]
    """EC2 types of the nodes. All have the same GPU model, GPU memory and number of GPUs, so that the same pods fit all of them.
    Or none has a GPU (docs/cpu-classes.md)."""
    reservation: EksReservation | None = None
    image: Literal["al2023-nvidia", "bottlerocket-nvidia"] = "al2023-nvidia"
    """Kind of node image. Default: AWS' AL2023 with NVIDIA's driver and container toolkit; without GPUs always AWS' plain
    AL2023. Example: `bottlerocket-nvidia`"""
    ami: PoolAmi | None = None
    """An image of your own instead of AWS': an entry of the cluster's `amis`, or the id of an AMI."""
    zones: tuple[str, ...] = ()
    """Zones of the pool, which are zones of the cluster. Default: all of them. `nodes` is split over them in this order."""
    node_config: NodeConfig | None = None
    """Settings of kubelet, containerd and local disks. nodeadm applies them when a node starts (docs/eks-nodes.md). Only for the
    image `al2023-nvidia`."""
    disk_performance: DiskPerformance | None = None
    """Throughput and IOPS of the root disk. Default: 125 MiB/s and 3,000 IOPS, which cost nothing extra."""
    efa_interfaces: Annotated[int, Field(ge=0)] = 0
    """Elastic Fabric Adapters of each machine. The device plugin that offers them to pods is not part of this program. Unit:
    network interfaces."""
    placement_group: PlacementGroup | None = None
    """How EC2 places the machines relative to each other. Default: no rule."""
    warm: WarmPool | None = None
    """Machines that have booted once and wait outside of the cluster (docs/starts.md)."""
    UNSCHEDULED: ClassVar[str] = ""
    WARMS: ClassVar[bool] = True

    @property
    def resource_managers(self) -> ResourceManagers | None:
        """As in the base class: what `nodeConfig.kubelet.config` sets."""
        return self.node_config.kubelet.config if self.node_config and self.node_config.kubelet else None

    @property
    def ami_id(self) -> str | None:
        """The AMI's id, if the settings name it by its id."""
        return self.ami if self.ami and self.ami.startswith("ami-") else None

    @property
    def ami_entry(self) -> str | None:
        """The entry of `amis`, if the settings name one."""
        return None if self.ami_id else self.ami

    @refusal
    def _eks_rules(self) -> None:
        """Refuse a reservation that EC2 cannot use for the pool, a zone given twice, and capacity blocks, adapters, placement
        groups and node settings that do not fit the pool's machines.
        """
        if self.reservation is not None and len(self.instance_types) > 1:
            message = "a capacity reservation has one instance type; keep one, and add a pool for each other type"
            raise problem("reservation_type", message, at=("instanceTypes",))
        if self.reservation is not None and not re.fullmatch(r"cr-[0-9a-f]{8,17}", self.reservation.id):
            message = "not a capacity reservation's id; write cr-… as AWS shows it"
            raise problem("reservation_id", message, at=("reservation", "id"))
        if self.reservation is not None and self.zones:
            message = "the nodes of a reserved pool are in the reservation's zone; remove zones"
            raise problem("reserved_zones", message, at=("zones",))
        require_once("repeated_zone", "a zone is given twice; remove one", self.zones, at=("zones",))
        if self.ami is not None and self.image != "al2023-nvidia":
            message = "an image of your own is made from al2023-nvidia; remove ami, or use that image"
            raise problem("ami_image", message, at=("ami",))
        _capacity_block(self)
        _efa(self)
        _placement_group(self)
        _node_config(self)
        _root_disk(self)
        _fast_image_pull(self)
        _warm(self)

    def could_buy(self, machine: Machine) -> bool:
        """As in the base class: the local disks and adapters that the pool uses."""
        disks = min(own_machine.nvme_gb for own_machine in self.machines) if self.node_config and self.node_config.instance else 0
        return machine.nvme_gb >= disks and machine.efa_interfaces >= self.efa_interfaces

    def closed(self, day: date) -> str:
        """As in the base class: its reservation is over or has not begun."""
        return self.reservation.closed(day) if self.reservation is not None else ""

    @property
    def root_disk(self) -> DiskPerformance:
        """Throughput and IOPS of the root disk: what every gp3 volume has, unless the settings ask for more."""
        return self.disk_performance or DiskPerformance()

    def disk_throughput(self, machine: Machine) -> int | None:
        """The MiB/s of the disk with the images on a machine of the pool, at most.

        None if no source has a figure: for an array of local disks, and for a machine whose EBS limit is not known.
        """
        return None if self.images_on_array else gp3_on(machine, self.root_disk.throughput)

    @property
    def images_on_array(self) -> bool:
        """Whether images are unpacked on an array of local disks."""
        return self.node_config is not None and self.node_config.images_on_array


def warm_remarks(pool: EksPool, zones: Mapping[str, Nodes]) -> Iterator[str]:
    """Warnings about a warm pool that saves less than it seems to. `zones` are the sizes of the pool's node groups."""
    if pool.warm is None:
        return
    if pool.warm.state == "stopped" and pool.node_config is not None and pool.node_config.array:
        yield "a stopped machine loses its local disks, so it keeps no image on the RAID0 array, and only its boot is shorter"
    machines = pool.warm.machines(zones)
    if bare := [zone for zone, nodes in zones.items() if nodes.min < nodes.max and not machines.get(zone)]:
        prepared = min(pool.nodes.min + len(zones), pool.nodes.max)
        yield todo(
            f"no machine waits in {' and '.join(bare)}, and the autoscaler does not know where one waits; raise maxPrepared to "
            f"{prepared}, or write one zone in zones"
        )


def _capacity_block(pool: EksPool) -> None:
    if pool.capacity != CAPACITY_BLOCK or pool.reservation is None:
        return
    for machine in pool.machines:
        if not machine.capacity_block:
            sold = ", ".join(block_machine.name for block_machine in machines("aws") if block_machine.capacity_block)
            message = f"EC2 has no capacity blocks of {machine.name}; use one of: {sold}"
            raise problem("block_type", message, at=("instanceTypes",))
    if pool.reservation.count > MOST_IN_BLOCK:
        message = f"a capacity block has {MOST_IN_BLOCK} machines at most; give each of several blocks a pool"
        raise problem("block_size", message, at=("reservation", "count"))


def _efa(pool: EksPool) -> None:
    for machine in pool.machines:
        if pool.efa_interfaces > (most := machine.efa_interfaces):
            message = f"{machine.name} takes {most or 'no'} EFA interfaces; write as many at most, or use another type"
            raise problem("efa", message, at=("efaInterfaces",))


def _placement_group(pool: EksPool) -> None:
    group = pool.placement_group
    if group is None:
        return
    if pool.capacity == CAPACITY_BLOCK:
        # EC2 user guide, work with Capacity Blocks; aws/aws-parallelcluster#6311 refuses the two together.
        why = "EC2 places the machines of a capacity block close together by itself"
        message = f"{why}, and in a placement group it may find no capacity; remove placementGroup"
        raise problem("block_placement", message, at=("placementGroup",))
    if pool.capacity == RESERVED and group.name is None:
        # eksctl-io/eksctl#7949: of 16 reserved machines 11 started in a new placement group.
        fix = "write the name of the group in which you made the reservation"
        message = f"a reservation is not in a placement group that is created after it, so machines may not start; {fix}"
        raise problem("reserved_placement", message, at=("placementGroup",))
    if group.one_zone and pool.reservation is None and len(pool.zones) != 1:
        fix = "write the pool's one zone in zones"
        message = f"a cluster placement group (and an existing one may be such a group) is in one zone; {fix}"
        raise problem("placement_zone", message, at=("placementGroup",))


def _node_config(pool: EksPool) -> None:
    if pool.node_config is None:
        return
    if pool.image != "al2023-nvidia":
        message = "only al2023-nvidia has nodeadm; remove nodeConfig, or use that image"
        raise problem("node_config_image", message, at=("nodeConfig",))
    if pool.node_config.instance is not None:
        require_local_disks(pool, array=pool.node_config.array, at=("nodeConfig", "instance", "localStorage"))


def _root_disk(pool: EksPool) -> None:
    disk = pool.disk_performance
    if disk is None:
        return
    if pool.images_on_array:
        message = "with RAID0 images are on the local disks, and a faster root disk is paid for nothing; remove diskPerformance"
        raise problem("disk_performance_array", message, at=("diskPerformance",))
    gib = pool.disk // 1024
    if disk.iops > (most := GP3_IOPS_PER_GIB * gib):
        message = f"a root disk of {gib} GiB has at most {most} IOPS, {GP3_IOPS_PER_GIB} per GiB; lower iops or raise disk"
        raise problem("disk_iops", message, at=("diskPerformance", "iops"))
    limits = {machine.name: ebs_mibps(machine) for machine in pool.machines}
    mibps = [limit for limit in limits.values() if limit is not None]
    if len(mibps) == len(limits) and disk.throughput > (most := max(mibps)):
        fix = f"more is paid for nothing; lower throughput to {most}"
        message = f"the EBS limit of {' and '.join(limits)} is {most} MiB/s at most, and {fix}"
        raise problem("disk_throughput_limit", message, at=("diskPerformance", "throughput"))


def _fast_image_pull(pool: EksPool) -> None:
    if pool.node_config is None or not pool.node_config.fast_image_pull or pool.images_on_array:
        return
    for machine in pool.machines:
        reached, limit = pool.disk_throughput(machine), ebs_mibps(machine)
        if reached is not None and reached >= FAST_PULL_MIBPS:
            continue
        local = "put images on local disks (localStorage RAID0 without Containerd and SOCI in disabledMounts)"
        faster = f"raise diskPerformance.throughput to {FAST_PULL_MIBPS}"
        ways = [local if machine.nvme_gb else "", faster if (limit or 0) >= FAST_PULL_MIBPS else "", "remove FastImagePull"]
        disk = f"a root disk of {reached or 'unknown'} (EBS limit {limit or 'unknown'})"
        why = f"parallel unpacking needs a disk of {FAST_PULL_MIBPS} MiB/s, and images of {machine.name} are on {disk}"
        message = f"{why}; {', or '.join(filter(None, ways))}"
        raise problem("fast_image_pull", message, at=("nodeConfig", "featureGates", "FastImagePull"))


def _warm(pool: EksPool) -> None:
    """Refuse a warm pool that EC2 or EKS refuses for the pool. One condition for each reason. Raises a settings problem."""
    warm, at = pool.warm, ("warm",)
    if warm is None:
        return
    if pool.capacity == SPOT:
        # kubernetes/kops#17799: EC2 Auto Scaling refuses the two together. The EKS user guide names no exception.
        raise problem("warm_spot", "EC2 has no warm pools of spot machines; use capacity on-demand, or remove warm", at=at)
    if pool.ami is not None:
        # EKS user guide, warm pools for managed node groups.
        raise problem("warm_ami", "EKS has no warm pools of an AMI of your own; remove ami, or remove warm", at=at)
    if pool.capacity in PREPAID:
        fix = "raise it, and remove warm"
        message = f"a reservation is paid whether its machines run or not, so nodes.min costs nothing more; {fix}"
        raise problem("warm_reserved", message, at=at)
    if warm.state == "hibernated":
        # DescribeInstanceTypes, HibernationSupported: false for every GPU type (as recorded by moto 5.2.5).
        raise problem("warm_hibernated", "EC2 hibernates no GPU type; write stopped or running", at=(*at, "state"))
    if warm.reuse_on_scale_in and pool.image == "bottlerocket-nvidia":
        message = "EKS does not return Bottlerocket nodes to a warm pool; remove it"
        raise problem("warm_reuse", message, at=(*at, "reuseOnScaleIn"))
    if warm.max_prepared > pool.nodes.max:
        message = f"machines beyond nodes.max {pool.nodes.max} never join the cluster; lower maxPrepared, or raise nodes.max"
        raise problem("warm_size", message, at=(*at, "maxPrepared"))
    if warm.min > warm.max_prepared:
        message = f"min is above maxPrepared {warm.max_prepared}; lower min, or raise maxPrepared"
        raise problem("warm_min", message, at=(*at, "min"))
