"""The GPU pools of an EKS cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from fleet.facts.disks import gp3_on
from fleet.facts.hardware import CAPACITY_BLOCK, PREPAID, RESERVED, SPOT, Machine, machines
from fleet.providers.eks.node_config import NodeConfig
from fleet.providers.eks.placement_group import PlacementGroup
from fleet.providers.eks.root_disk import DEFAULT, DiskPerformance
from fleet.providers.eks.warm import WarmPool
from fleet.settings.model import Nodes, problem, require_once
from fleet.settings.pool import Pool, Reservation

_RESERVATION = re.compile(r"cr-[0-9a-f]{8,17}")
MOST_IN_BLOCK = 64
"""Machines of one capacity block (EC2 user guide, how Capacity Blocks work)."""


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise problem("day", "not a day; write year, month and day such as 2026-12-19") from None


class EksReservation(Reservation):
    """An EC2 capacity reservation or capacity block."""

    end_date: Annotated[str, AfterValidator(_day)] | None = None
    """The day on which it ends, as AWS shows it."""


class EksPool(Pool):
    """A GPU pool of EC2 types, as one managed node group per zone."""

    reservation: EksReservation | None = None
    image: Literal["al2023-nvidia", "bottlerocket-nvidia"] = "al2023-nvidia"
    """Kind of node image. Default: AWS' AL2023, which has NVIDIA's driver and container toolkit."""
    zones: tuple[str, ...] = ()
    """Zones of the pool. Default: all zones of the cluster. `nodes` splits over them in this order (`zone_groups`)."""
    node_config: NodeConfig | None = None
    """Settings of kubelet, containerd and local disks, which nodeadm applies when a node starts."""
    disk_performance: DiskPerformance | None = None
    """Throughput and IOPS of the root disk. Default: 125 MiB/s and 3,000 IOPS, which cost nothing more."""
    efa_interfaces: Annotated[int, Field(ge=0)] = 0
    """Elastic Fabric Adapters of each machine. The device plugin that offers them to pods is not part of this program."""
    placement_group: PlacementGroup | None = None
    warm: WarmPool | None = None
    """Machines that have booted once and wait outside of the cluster (docs/starts.md)."""

    @model_validator(mode="after")
    def _eks_rules(self) -> Self:
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
        return self

    @model_validator(mode="after")
    def _node_rules(self) -> Self:
        """Refuse capacity blocks, adapters, placement groups and node settings that do not fit the pool's machines."""
        _capacity_block(self)
        _efa(self)
        _placement_group(self)
        _node_config(self)
        _warm(self)
        return self

    @property
    def root_disk(self) -> DiskPerformance:
        """Throughput and IOPS of the root disk."""
        return self.disk_performance or DEFAULT

    def disk_throughput(self, machine: Machine) -> int | None:
        """The MiB/s of the disk with the images on a machine of the pool, at most.

        None if no source has a figure: for an array of local disks, and for a machine whose EBS limit is not known.
        """
        on_array = self.node_config is not None and self.node_config.images_on_array
        return None if on_array else gp3_on(machine, self.root_disk.throughput)


def ending(capacity: str, end: str, day: date) -> str:
    """What the end of a reservation means for its pool, in words."""
    what = "capacity block" if capacity == CAPACITY_BLOCK else "reservation"
    if date.fromisoformat(end) < day:
        return f"its {what} ended on {end}, and no node starts; change capacity and reservation"
    # EKS user guide, managed node groups with Capacity Blocks.
    drained = "; EKS removes its nodes 40 minutes before" if capacity == CAPACITY_BLOCK else ""
    return f"its {what} ends on {end}{drained}, and afterwards no node starts"


def warm_remarks(pool: EksPool, zones: Mapping[str, Nodes]) -> Iterator[str]:
    """Warnings about a warm pool that saves less than it seems to. `zones` are the sizes of the pool's node groups."""
    if pool.warm is None:
        return
    if pool.warm.state == "stopped" and pool.node_config is not None and pool.node_config.array:
        yield "a stopped machine loses its local disks, so it keeps no image on the RAID0 array, and only its boot is shorter"
    machines = pool.warm.machines(zones)
    if bare := [zone for zone, nodes in zones.items() if nodes.min < nodes.max and not machines.get(zone)]:
        every = min(pool.nodes.min + len(zones), pool.nodes.max)
        yield (
            f"no machine waits in {' and '.join(bare)}, and the autoscaler does not know where one waits; raise maxPrepared to "
            f"{every}, or write one zone in zones"
        )


def _capacity_block(pool: EksPool) -> None:
    if pool.capacity != CAPACITY_BLOCK or pool.reservation is None:
        return
    for name, machine in zip(pool.instance_types, pool.machines, strict=True):
        if not machine.capacity_block:
            sold = ", ".join(each.name for each in machines("aws") if each.capacity_block)
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
    if pool.node_config.instance is None:
        return
    for name, machine in zip(pool.instance_types, pool.machines, strict=True):
        at = ("nodeConfig", "instance", "localStorage")
        if machine.nvme_gb == 0:
            raise problem("local_storage", f"{name} has no local disk; remove localStorage, or use another type", at=at)
        gibibytes = machine.nvme_gb * 10**9 // 2**30
        if pool.node_config.array and gibibytes < pool.disk // 1024:
            raise problem(
                "local_storage_size",
                f"with RAID0 the files of pods are on the local disks, on {name} {gibibytes}Gi, and the plan counts with disk; "
                f"lower disk to {gibibytes}Gi or less",
                at=at,
            )


def _warm(pool: EksPool) -> None:
    """Refuse a warm pool that EC2 or EKS refuses for the pool. One condition for each reason. Raises a settings problem."""
    warm, at = pool.warm, ("warm",)
    if warm is None:
        return
    if pool.capacity == SPOT:
        # kubernetes/kops#17799: EC2 Auto Scaling refuses the two together. The EKS user guide names no exception.
        raise problem("warm_spot", "EC2 has no warm pools of spot machines; use capacity on-demand, or remove warm", at=at)
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
