"""The GPU pools of an EKS cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.facts.disks import FAST_PULL_MIBPS, GP3_IOPS_PER_GIB, ebs_mibps, gp3_on
from fleet.facts.hardware import CAPACITY_BLOCK, PREPAID, RESERVED, SPOT, Machine, machines
from fleet.facts.remark import todo
from fleet.providers.eks.node_config import NodeConfig
from fleet.providers.eks.placement_group import PlacementGroup
from fleet.providers.eks.root_disk import DEFAULT, DiskPerformance
from fleet.providers.eks.warm import WarmPool
from fleet.settings.kubelet import ResourceManagers
from fleet.settings.local_disks import require_local_disks
from fleet.settings.model import Day, Nodes, matching, problem, refusal, require_once
from fleet.settings.pool import Pool, Reservation

_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
MOST_IN_BLOCK = 64
"""Machines of one capacity block (EC2 user guide, how Capacity Blocks work)."""


_AMI_ID = r"ami-[0-9a-f]{8,17}"
AmiId = Annotated[str, matching("ami_id", "not the id of an AMI; write ami-… as AWS shows it", _AMI_ID)]
AmiName = Annotated[
    str,
    matching(
        "ami_name",
        "the name of an AMI has lower-case letters, digits and hyphens, at most 27, and does not start with ami-; rename it",
        r"(?!ami-)[a-z]([-a-z0-9]*[a-z0-9])?",
        most=27,
    ),
]


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

    @refusal
    def _dates(self) -> None:
        """Refuse an end before the start."""
        if self.start_date is not None and self.end_date is not None and self.end_date < self.start_date:
            raise problem(
                "reservation_dates", f"it starts after that day, on {self.start_date}; correct one of them", at=("endDate",)
            )


class EksPool(Pool):
    """A GPU pool of EC2 types, as one managed node group per zone."""

    MANAGERS_AT: ClassVar[tuple[str, ...]] = ("nodeConfig", "kubelet", "config")

    reservation: EksReservation | None = None
    image: Literal["al2023-nvidia", "bottlerocket-nvidia"] = "al2023-nvidia"
    """Kind of node image. Default: AWS' AL2023 with NVIDIA's driver and container toolkit. Example: `bottlerocket-nvidia`"""
    ami: (
        Annotated[
            str,
            matching(
                "pool_ami",
                "neither an entry of amis nor the id of an AMI; write one of them",
                rf"{_AMI_ID}|(?!ami-)[a-z][-a-z0-9]*",
            ),
        ]
        | None
    ) = None
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
        """Refuse a reservation that EC2 cannot use for the pool, and a zone given twice."""
        if self.reservation is not None and len(self.instance_types) > 1:
            raise problem(
                "reservation_type",
                "a capacity reservation has one instance type; keep one, and add a pool for each other type",
                at=("instanceTypes",),
            )
        if self.reservation is not None and not _RESERVATION.fullmatch(self.reservation.id):
            raise problem(
                "reservation_id", "not a capacity reservation's id; write cr-… as AWS shows it", at=("reservation", "id")
            )
        if self.reservation is not None and self.zones:
            raise problem(
                "reserved_zones", "the nodes of a reserved pool are in the reservation's zone; remove zones", at=("zones",)
            )
        require_once("repeated_zone", "a zone is given twice; remove one", self.zones, at=("zones",))
        if self.ami is not None and self.image != "al2023-nvidia":
            raise problem(
                "ami_image", "an image of your own is made from al2023-nvidia; remove ami, or use that image", at=("ami",)
            )

    @refusal
    def _node_rules(self) -> None:
        """Refuse capacity blocks, adapters, placement groups and node settings that do not fit the pool's machines."""
        _capacity_block(self)
        _efa(self)
        _placement_group(self)
        _node_config(self)
        _root_disk(self)
        _fast_image_pull(self)
        _warm(self)

    def closed(self, day: date) -> str:
        """As in the base class: its reservation is over or has not begun."""
        reservation = self.reservation
        if reservation is None:
            return ""
        if reservation.start_date is not None and day < date.fromisoformat(reservation.start_date):
            return f"its reservation starts on {reservation.start_date}"
        over = reservation.end_date is not None and date.fromisoformat(reservation.end_date) < day
        return f"its reservation ended on {reservation.end_date}" if over else ""

    @property
    def root_disk(self) -> DiskPerformance:
        """Throughput and IOPS of the root disk."""
        return self.disk_performance or DEFAULT

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
    for name, machine in zip(pool.instance_types, pool.machines, strict=True):
        if not machine.capacity_block:
            sold = ", ".join(block_machine.name for block_machine in machines("aws") if block_machine.capacity_block)
            raise problem("block_type", f"EC2 has no capacity blocks of {name}; use one of: {sold}", at=("instanceTypes",))
    if pool.reservation.count > MOST_IN_BLOCK:
        raise problem(
            "block_size",
            f"a capacity block has {MOST_IN_BLOCK} machines at most; give each of several blocks a pool",
            at=("reservation", "count"),
        )


def _efa(pool: EksPool) -> None:
    for name, machine in zip(pool.instance_types, pool.machines, strict=True):
        if pool.efa_interfaces > machine.efa_interfaces:
            raise problem(
                "efa",
                f"{name} takes {machine.efa_interfaces or 'no'} EFA interfaces; write as many at most, or use another type",
                at=("efaInterfaces",),
            )


def _placement_group(pool: EksPool) -> None:
    group = pool.placement_group
    if group is None:
        return
    if pool.capacity == CAPACITY_BLOCK:
        # EC2 user guide, work with Capacity Blocks; aws/aws-parallelcluster#6311 refuses the two together.
        raise problem(
            "block_placement",
            "EC2 places the machines of a capacity block close together by itself, and in a placement group it may find no "
            "capacity; remove placementGroup",
            at=("placementGroup",),
        )
    if pool.capacity == RESERVED and group.name is None:
        # eksctl-io/eksctl#7949: of 16 reserved machines 11 started in a new placement group.
        raise problem(
            "reserved_placement",
            "a reservation is not in a placement group that is created after it, so machines may not start; write the name of "
            "the group in which you made the reservation",
            at=("placementGroup",),
        )
    if group.one_zone and pool.reservation is None and len(pool.zones) != 1:
        raise problem(
            "placement_zone",
            "a cluster placement group (and an existing one may be such a group) is in one zone; write the pool's one zone in "
            "zones",
            at=("placementGroup",),
        )


def _node_config(pool: EksPool) -> None:
    if pool.node_config is None:
        return
    if pool.image != "al2023-nvidia":
        raise problem(
            "node_config_image", "only al2023-nvidia has nodeadm; remove nodeConfig, or use that image", at=("nodeConfig",)
        )
    if pool.node_config.instance is not None:
        require_local_disks(pool, array=pool.node_config.array, at=("nodeConfig", "instance", "localStorage"))


def _root_disk(pool: EksPool) -> None:
    disk = pool.disk_performance
    if disk is None:
        return
    if pool.images_on_array:
        raise problem(
            "disk_performance_array",
            "with RAID0 images are on the local disks, and a faster root disk is paid for nothing; remove diskPerformance",
            at=("diskPerformance",),
        )
    gib = pool.disk // 1024
    if disk.iops > (most := GP3_IOPS_PER_GIB * gib):
        raise problem(
            "disk_iops",
            f"a root disk of {gib} GiB has at most {most} IOPS, {GP3_IOPS_PER_GIB} per GiB; lower iops or raise disk",
            at=("diskPerformance", "iops"),
        )
    limits = {machine.name: ebs_mibps(machine) for machine in pool.machines}
    mibps = [limit for limit in limits.values() if limit is not None]
    if len(mibps) == len(limits) and disk.throughput > (most := max(mibps)):
        raise problem(
            "disk_throughput_limit",
            f"the EBS limit of {' and '.join(limits)} is {most} MiB/s at most, and more is paid for nothing; lower throughput to "
            f"{most}",
            at=("diskPerformance", "throughput"),
        )


def _fast_image_pull(pool: EksPool) -> None:
    if pool.node_config is None or not pool.node_config.fast_image_pull or pool.images_on_array:
        return
    for machine in pool.machines:
        reached, limit = pool.disk_throughput(machine), ebs_mibps(machine)
        if reached is not None and reached >= FAST_PULL_MIBPS:
            continue
        ways = [
            "put images on local disks (localStorage RAID0 without Containerd and SOCI in disabledMounts)"
            if machine.nvme_gb
            else "",
            f"raise diskPerformance.throughput to {FAST_PULL_MIBPS}" if limit and limit >= FAST_PULL_MIBPS else "",
            "remove FastImagePull",
        ]
        raise problem(
            "fast_image_pull",
            f"parallel unpacking needs a disk of {FAST_PULL_MIBPS} MiB/s, and images of {machine.name} are on a root disk of "
            f"{reached or 'unknown'} (EBS limit {limit or 'unknown'}); {', or '.join(filter(None, ways))}",
            at=("nodeConfig", "featureGates", "FastImagePull"),
        )


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
        raise problem(
            "warm_reserved",
            "a reservation is paid whether its machines run or not, so nodes.min costs nothing more; raise it, and remove warm",
            at=at,
        )
    if warm.state == "hibernated":
        # DescribeInstanceTypes, HibernationSupported: false for every GPU type (as recorded by moto 5.2.5).
        raise problem("warm_hibernated", "EC2 hibernates no GPU type; write stopped or running", at=(*at, "state"))
    if warm.reuse_on_scale_in and pool.image == "bottlerocket-nvidia":
        raise problem(
            "warm_reuse", "EKS does not return Bottlerocket nodes to a warm pool; remove it", at=(*at, "reuseOnScaleIn")
        )
    if warm.max_prepared > pool.nodes.max:
        raise problem(
            "warm_size",
            f"machines beyond nodes.max {pool.nodes.max} never join the cluster; lower maxPrepared, or raise nodes.max",
            at=(*at, "maxPrepared"),
        )
    if warm.min > warm.max_prepared:
        raise problem(
            "warm_min", f"min is above maxPrepared {warm.max_prepared}; lower min, or raise maxPrepared", at=(*at, "min")
        )
