"""The GPU pools of an EKS cluster."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts.disks import FAST_PULL_MIBPS, GP3_IOPS_PER_GIB, ebs_mibps, gp3_on
from fleet.facts.hardware import CAPACITY_BLOCK, PREPAID, RESERVED, SPOT, Machine, machines
from fleet.facts.remark import said, todo
from fleet.providers.eks.groups import WarmPool
from fleet.providers.eks.node_config import NodeConfig
from fleet.providers.eks.node_options import DiskPerformance, PlacementGroup
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.model import Day, Nodes
from fleet.settings.pool import NodeType, Pool, Reservation, require_local_disks
from fleet.settings.refusals import matching, problem, refusal, refuse, refuse_if, require_once

MOST_IN_BLOCK = 64
"""Machines of one capacity block (EC2 user guide, how Capacity Blocks work)."""


_AMI_ID = r"ami-[0-9a-f]{8,17}"
AmiId = Annotated[str, matching("ami_id", _AMI_ID)]
AmiName = Annotated[str, matching("ami_name", r"(?!ami-)[a-z]([-a-z0-9]*[a-z0-9])?", most=27)]
_POOL_AMI = rf"{_AMI_ID}|(?!ami-)[a-z][-a-z0-9]*"
PoolAmi = Annotated[str, matching("pool_ami", _POOL_AMI)]


class EksReservation(Reservation):
    """An EC2 capacity reservation or capacity block."""

    start_date: Day | None = None
    """The day on which the reservation starts, as AWS shows it. Default: it has started."""
    end_date: Day | None = None
    """The day on which the reservation or block ends, as AWS shows it."""
    owner: Annotated[str, matching("owner", r"[0-9]{12}")] | None = None
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
            raise problem("reservation_dates", at=("endDate",), start_date=self.start_date)


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
        refuse("instanceTypes", reservation_type=self.reservation is not None and len(self.instance_types) > 1)
        if self.reservation is not None and not re.fullmatch(r"cr-[0-9a-f]{8,17}", self.reservation.id):
            raise problem("reservation_id", at=("reservation", "id"))
        refuse("zones", reserved_zones=self.reservation is not None and self.zones)
        require_once("repeated_zone", self.zones, at=("zones",))
        refuse("ami", ami_image=self.ami is not None and self.image != "al2023-nvidia")
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
        yield todo(said("warm_zones", bare=" and ".join(bare), most=prepared))


def _capacity_block(pool: EksPool) -> None:
    if pool.capacity != CAPACITY_BLOCK or pool.reservation is None:
        return
    for machine in pool.machines:
        if not machine.capacity_block:
            sold = ", ".join(block_machine.name for block_machine in machines("aws") if block_machine.capacity_block)
            raise problem("block_type", at=("instanceTypes",), machine=machine.name, sold=sold)
    refuse_if("block_size", pool.reservation.count > MOST_IN_BLOCK, at=("reservation", "count"), most=MOST_IN_BLOCK)


def _efa(pool: EksPool) -> None:
    for machine in pool.machines:
        if pool.efa_interfaces > (most := machine.efa_interfaces):
            raise problem("efa", at=("efaInterfaces",), machine=machine.name, most=most or "no")


def _placement_group(pool: EksPool) -> None:
    if (group := pool.placement_group) is None:
        return
    # EC2 user guide, work with Capacity Blocks; aws/aws-parallelcluster#6311 refuses the two together.
    refuse("placementGroup", block_placement=pool.capacity == CAPACITY_BLOCK)
    # eksctl-io/eksctl#7949: of 16 reserved machines 11 started in a new placement group.
    refuse("placementGroup", reserved_placement=pool.capacity == RESERVED and group.name is None)
    refuse("placementGroup", placement_zone=group.one_zone and pool.reservation is None and len(pool.zones) != 1)


def _node_config(pool: EksPool) -> None:
    if pool.node_config is None:
        return
    refuse("nodeConfig", node_config_image=pool.image != "al2023-nvidia")
    if pool.node_config.instance is not None:
        require_local_disks(pool, array=pool.node_config.array, at=("nodeConfig", "instance", "localStorage"))


def _root_disk(pool: EksPool) -> None:
    if (disk := pool.disk_performance) is None:
        return
    refuse("diskPerformance", disk_performance_array=pool.images_on_array)
    gib = pool.disk // 1024
    if disk.iops > (most := GP3_IOPS_PER_GIB * gib):
        raise problem("disk_iops", at=("diskPerformance", "iops"), gib=gib, most=most, per_gib=GP3_IOPS_PER_GIB)
    limits = {machine.name: ebs_mibps(machine) for machine in pool.machines}
    mibps = [limit for limit in limits.values() if limit is not None]
    if len(mibps) == len(limits) and disk.throughput > (most := max(mibps)):
        raise problem("disk_throughput_limit", at=("diskPerformance", "throughput"), limits=" and ".join(limits), most=most)


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
    # kubernetes/kops#17799: EC2 Auto Scaling refuses the two together. The EKS user guide names no exception.
    refuse(*at, warm_spot=pool.capacity == SPOT)
    # EKS user guide, warm pools for managed node groups.
    refuse(*at, warm_ami=pool.ami is not None)
    refuse(*at, warm_reserved=pool.capacity in PREPAID)
    # DescribeInstanceTypes, HibernationSupported: false for every GPU type (as recorded by moto 5.2.5).
    refuse(*at, "state", warm_hibernated=warm.state == "hibernated")
    refuse(*at, "reuseOnScaleIn", warm_reuse=warm.reuse_on_scale_in and pool.image == "bottlerocket-nvidia")
    refuse_if("warm_size", warm.max_prepared > pool.nodes.max, at=(*at, "maxPrepared"), max=pool.nodes.max)
    refuse_if("warm_min", warm.min > warm.max_prepared, at=(*at, "min"), max_prepared=warm.max_prepared)
