"""What a plan says of EC2 machines: reservations by the day, P5 and P6 on demand, zones without a control plane, what node
options cost and save at a cold start, and the support of a Kubernetes minor.
"""

from collections.abc import Iterator
from datetime import date

from fleet.facts.disks import GP3_MIBPS, write_seconds
from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, unit_price
from fleet.facts.lifecycle import Life, Use, of_eks
from fleet.facts.pricing import bundle
from fleet.facts.remark import CANNOT_WORK, Remark, costs, said, todo
from fleet.facts.support import EKS_SUPPORT, EXTENDED, STANDARD, control_plane
from fleet.providers.eks.nodes import EksPool
from fleet.settings.budget import MONTH
from fleet.settings.pool import unused_disks

_IN_BLOCKS = ("p5", "p5e", "p5en", "p6-b200", "p6-b300")
"""Families that AWS sells as Capacity Blocks rather than on demand. EC2 Auto Scaling user guide, Capacity Blocks: they reserve
"highly sought-after GPU instances". PyTorch's CI buys its P5 and P6 as blocks and P4d on demand (pytorch/ci-infra#534, #693)."""
_REFUSED_ZONES = {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
"""Zone ids in which EKS refuses the subnets of a control plane, by region (EKS user guide, network requirements)."""
_LONGEST_JOB = 5
"""Days after which GitHub ends a job of a self-hosted runner (docs.github.com, usage limits)."""
IMAGE_GIB = 25
"""An unpacked image, for the seconds of writing it. CUDA images are 10-20 GB each as they are pulled."""


def window(pool: EksPool, day: date) -> Iterator[str]:
    """What the start and the end of a reservation mean for its pool, in words."""
    if (reservation := pool.reservation) is None:
        return
    block = pool.capacity == CAPACITY_BLOCK
    noun = "capacity block" if block else "reservation"
    if reservation.start_date is not None and day.isoformat() < reservation.start_date:
        waits = f"its {noun} starts on {reservation.start_date}; until then no node starts and jobs wait"
        yield Remark(said("least_too_early", waits=waits, pool=pool), CANNOT_WORK) if pool.nodes.min else waits
    if reservation.end_date is None:
        return
    if reservation.end_date < day.isoformat():
        yield Remark(said("reservation_over", noun=noun, reservation=reservation), CANNOT_WORK)
        return
    # EKS user guide, managed node groups with Capacity Blocks.
    drained = "; EKS removes its nodes 40 minutes before, also those that run a job" if block else ""
    yield f"its {noun} ends on {reservation.end_date}{drained}, and afterwards no node starts"
    if block and (days := (date.fromisoformat(reservation.end_date) - day).days) < _LONGEST_JOB:
        yield todo(said("block_ends", days=days, longest=_LONGEST_JOB))


def reserved(name: str, pool: EksPool) -> Iterator[Use]:
    """The end of a pool's reservation or capacity block, if the settings have it."""
    if (reservation := pool.reservation) is not None and reservation.end_date is not None:
        noun = "capacity block" if pool.capacity == CAPACITY_BLOCK else "reservation"
        end = date.fromisoformat(reservation.end_date)
        life = Life(f"{noun} {reservation.id} of pool {name}", end, "no node of the pool starts")
        yield Use(life, f"buy another, then change pools.{name}.reservation")


def machine_remarks(pool: EksPool, region: str) -> Iterator[str]:
    """Warnings about on-demand machines that AWS hardly sells, what a shared reservation and EFA need, what a faster root disk
    costs and saves, and a remark on local disks that the pool does not use.
    """
    scarce = [name for name in pool.instance_types if name.partition(".")[0] in _IN_BLOCKS]
    if scarce and pool.capacity == ON_DEMAND:
        yield todo(said("scarce", scarce=" and ".join(scarce)))
    if (reservation := pool.reservation) is not None and reservation.owner is not None:
        # EC2 user guide, shared Capacity Reservations and share Capacity Blocks.
        unused = "has paid for the block" if pool.capacity == CAPACITY_BLOCK else "pays for unused machines"
        yield said("shared_reservation", owner=reservation.owner, id=reservation.id, unused=unused)
    if pool.efa_interfaces:
        yield todo(said("efa_plugin"))
    if extra := pool.root_disk.extra:
        usd = bundle("", "", "", extra, region, 1, 1).dear
        yield costs(f"{pool.root_disk} costs {usd} USD an hour per node and saves {_written(pool)}")
    config = pool.node_config
    if pool.image == "al2023-nvidia" and (config is None or config.instance is None):
        yield from unused_disks(pool, "nodeConfig.instance.localStorage")


def refused_zone(region: str) -> Iterator[str]:
    """A warning for regions with a zone in which EKS creates no control plane. Its name differs per account."""
    if region in _REFUSED_ZONES:
        yield todo(said("refused_zone", zone=_REFUSED_ZONES[region], region=region))


def _written(pool: EksPool) -> str:
    """The seconds that a faster disk saves at most. It saves none where the network or the processor is slower than the disk."""
    reached = [pool.disk_throughput(machine) for machine in pool.machines]
    if not (speeds := [speed for speed in reached if speed is not None]):
        return "unknown seconds (no source has the EBS limit)"
    most = write_seconds(IMAGE_GIB, GP3_MIBPS) - write_seconds(IMAGE_GIB, max(speeds))
    return f"0-{most:.0f} s of writing {IMAGE_GIB} GiB (derived: bytes over throughput)"


AUTOMATIC = "STANDARD"
"""The `upgradePolicy` with which AWS upgrades a control plane whose standard support ends. The other one, EXTENDED, chooses
extended support."""


def billed(minor: str, day: date) -> tuple[str, str]:
    """(item of the price list, words for the bill) of a control plane on a day."""
    item, until = control_plane(minor, day), EKS_SUPPORT[minor].standard_until
    support = f"standard support until {until}" if item == STANDARD else f"extended support since {until}"
    return item, f"EKS {minor}, {support}"


def supported(minor: str, region: str, policy: str | None) -> Iterator[Use]:
    """Standard and extended support of a minor, with what AWS charges for the second. `policy` is the cluster's `upgradePolicy`.

    A cluster that chose extended support has only the end of that.
    """
    upgrade = "raise kubernetesVersion by one minor (docs/upgrades.md)"
    for extended in (True,) if policy == "EXTENDED" else (False, True):
        if (life := of_eks(minor, extended=extended)) is not None:
            yield Use(life, upgrade, "" if extended else _more(region))


def support_remarks(minor: str, region: str, day: date, policy: str | None) -> Iterator[str]:
    """The end of support, what happens then, and what to do. `policy` is the cluster's `upgradePolicy`.

    The price follows from minor and day alone: the policy says what AWS does at the end of standard support, not what it bills.
    """
    support, cost = EKS_SUPPORT[minor], _cost(region)
    until = support.standard_until
    if day < until and policy == AUTOMATIC:
        yield said("support_automatic", minor=minor, until=until, policy=AUTOMATIC)
    elif day < until:
        yield costs(f"kubernetesVersion: EKS {minor} is in standard support until {until}; from that day on, {cost}")
    elif day < support.extended_until:
        yield costs(said("support_extended", minor=minor, until=until, cost=cost, end=support.extended_until), act=True)
    else:
        yield costs(said("support_over", minor=minor, end=support.extended_until, cost=cost), act=True)
    if day >= until and policy == AUTOMATIC:
        yield todo(said("policy_late", policy=AUTOMATIC, minor=minor, until=until))


def _prices(region: str) -> tuple[float, float] | None:
    """USD an hour of a control plane in standard and in extended support; None if a price is not known."""
    usual, later = unit_price(STANDARD, region), unit_price(EXTENDED, region)
    return None if usual is None or later is None else (usual.usd_per_hour, later.usd_per_hour)


def _more(region: str) -> str:
    prices = _prices(region)
    return "more, at a price that is not known" if prices is None else f"{(prices[1] - prices[0]) * MONTH:.0f} USD a month more"


def _cost(region: str) -> str:
    prices = _prices(region)
    if prices is None:
        return f"the control plane costs more (its price in {region} is unknown)"
    return f"the control plane costs {prices[1]:.2f} instead of {prices[0]:.2f} USD/h, {_more(region)}"
