"""What a plan says of EC2 machines: reservations by the day, P5 and P6 on demand, zones without a control plane, and what node
options cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND
from fleet.facts.lifecycle import Life, Use
from fleet.facts.pricing import bundle
from fleet.facts.remark import CANNOT_WORK, Remark, costs, todo
from fleet.providers.eks.nodes import EksPool
from fleet.settings.local_disks import unused_disks

_IN_BLOCKS = ("p5", "p5e", "p5en", "p6-b200", "p6-b300")
"""Families that AWS sells as Capacity Blocks rather than on demand. EC2 Auto Scaling user guide, Capacity Blocks: they reserve
"highly sought-after GPU instances". PyTorch's CI buys its P5 and P6 as blocks and P4d on demand (pytorch/ci-infra#534, #693)."""
_REFUSED_ZONES = {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
"""Zone ids in which EKS refuses the subnets of a control plane, by region (EKS user guide, network requirements)."""
_LONGEST_JOB = 5
"""Days after which GitHub ends a job of a self-hosted runner (docs.github.com, usage limits)."""


def window(pool: EksPool, day: date) -> Iterator[str]:
    """What the start and the end of a reservation mean for its pool, in words."""
    reservation = pool.reservation
    if reservation is None:
        return
    block = pool.capacity == CAPACITY_BLOCK
    noun = "capacity block" if block else "reservation"
    if reservation.start_date is not None and day.isoformat() < reservation.start_date:
        waits = f"its {noun} starts on {reservation.start_date}; until then no node starts and jobs wait"
        refused = f"{waits}, and EC2 refuses the {pool.nodes.min} of nodes.min; set it to 0 until that day"
        yield Remark(refused, CANNOT_WORK) if pool.nodes.min else waits
    if reservation.end_date is None:
        return
    if reservation.end_date < day.isoformat():
        yield Remark(
            f"its {noun} ended on {reservation.end_date}, and no node starts; change capacity and reservation", CANNOT_WORK
        )
        return
    # EKS user guide, managed node groups with Capacity Blocks.
    drained = "; EKS removes its nodes 40 minutes before, also those that run a job" if block else ""
    yield f"its {noun} ends on {reservation.end_date}{drained}, and afterwards no node starts"
    if block and (days := (date.fromisoformat(reservation.end_date) - day).days) < _LONGEST_JOB:
        yield todo(
            f"its capacity block ends in {days} days, and a job may run for {_LONGEST_JOB}; set timeout-minutes so that its jobs "
            "end before"
        )


def reserved(name: str, pool: EksPool) -> Iterator[Use]:
    """The end of a pool's reservation or capacity block, if the settings have it."""
    reservation = pool.reservation
    if reservation is not None and reservation.end_date is not None:
        noun = "capacity block" if pool.capacity == CAPACITY_BLOCK else "reservation"
        life = Life(
            f"{noun} {reservation.id} of pool {name}", date.fromisoformat(reservation.end_date), "no node of the pool starts"
        )
        yield Use(life, f"buy another, then change pools.{name}.reservation")


def machine_remarks(pool: EksPool, region: str) -> Iterator[str]:
    """Warnings about on-demand machines that AWS hardly sells, what a shared reservation and EFA need, what a faster root disk
    costs, and a remark on local disks that the pool does not use.
    """
    scarce = [name for name in pool.instance_types if name.partition(".")[0] in _IN_BLOCKS]
    if scarce and pool.capacity == ON_DEMAND:
        yield todo(
            f"AWS hardly sells {' and '.join(scarce)} on demand, so its jobs may wait without end; buy a capacity block, or use "
            "a reservation (docs/capacity.md)"
        )
    reservation = pool.reservation
    if reservation is not None and reservation.owner is not None:
        # EC2 user guide, shared Capacity Reservations and share Capacity Blocks.
        unused = "has paid for the block" if pool.capacity == CAPACITY_BLOCK else "pays for unused machines"
        yield (
            f"account {reservation.owner} shares {reservation.id} and {unused}, but the bill here counts all machines; "
            "write the zone's name "
            f"in your own account: aws ec2 describe-capacity-reservations --capacity-reservation-ids {reservation.id} "
            "--query 'CapacityReservations[].AvailabilityZone'"
        )
    if pool.efa_interfaces:
        yield todo(
            "no pod can request its EFA interfaces (vpc.amazonaws.com/efa) until you install AWS's EFA device plugin; gpu-ci does"
            " not install it"
        )
    if extra := pool.root_disk.extra:
        usd = bundle("", "", "", extra, region, 1, 1).dear
        yield costs(f"{pool.root_disk} costs {usd} USD an hour per node")
    config = pool.node_config
    if pool.image == "al2023-nvidia" and (config is None or config.instance is None):
        yield from unused_disks(pool, "nodeConfig.instance.localStorage")


def refused_zone(region: str) -> Iterator[str]:
    """A warning for regions with a zone in which EKS creates no control plane. Its name differs per account."""
    if region in _REFUSED_ZONES:
        yield todo(
            f"EKS refuses a control plane in zone id {_REFUSED_ZONES[region]}; find that zone's name in your account and leave "
            f"it out: aws ec2 describe-availability-zones --region {region} --query 'AvailabilityZones[].[ZoneName,ZoneId]'"
        )
