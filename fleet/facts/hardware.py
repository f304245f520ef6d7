"""Machines, their GPUs, prices and quotas: one table, read from `data/*.csv`.

Standard library only: the policy pack ships this module. Sources, dates and how to update: `data/README.md`.
"""

from functools import cache

from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

ON_DEMAND, SPOT, RESERVED, CAPACITY_BLOCK = "on-demand", "spot", "reserved", "capacity-block"
PREPAID = frozenset((RESERVED, CAPACITY_BLOCK))
"""Capacity types whose machines are paid for whether they are used or not."""

OWNED = "owned"
"""The cloud of machines that a stack file describes."""

_UNIT, _EVERYWHERE = "unit", "*"


class Gpu(Record):
    """One GPU model.

    `compute_capability` is the CUDA one ("7.5"), empty for AMD. `accelerator` is the value of the accelerator label that
    Cluster Autoscaler knows, or one in the same style. `max_driver_branch` and `min_driver_branch` are the newest and the oldest
    branch of NVIDIA's driver (580) that supports the GPU; None if no limit is known. `memory_mib` is the card's memory, 0 for a
    model that is sold with several sizes.
    """

    name: str
    vendor: str
    architecture: str
    compute_capability: str
    accelerator: str
    mig: bool
    max_driver_branch: int | None
    min_driver_branch: int | None
    memory_mib: int = 0


class Machine(Record, kw_only=True):
    """One instance type or shape of the table, or a machine that a stack file describes.

    `cloud` is "aws", "oci" or, for a described machine, "owned"; `arch` is "x86_64" or "arm64". `gpu_memory_mib` is the memory of
    one GPU, 0 without GPU. `nvme_gb` (10^9 bytes) is the sum of the local disks, 0 if there is none or none is known.
    `network_gbps` is the sustained bandwidth, 0 if it is not known. `max_pods` is the number of pods that the network has
    addresses for: on EC2 the limit of the VPC CNI without prefix delegation. It is None for other machines, except for flexible
    shapes. `network_cards` and `efa_interfaces` are EC2's: the number of network cards, 0 if it is not known, and the most
    Elastic Fabric Adapters. `capacity_block` says whether EC2 sells the type in Capacity Blocks for ML. `ebs_mbps` is the most
    traffic with EBS volumes in 10^6 bits a second, which small types keep for at least 30 minutes a day, and `ebs_baseline_mbps`
    what a machine always has; 0 if they are not known. `own_price` is the price that the stack file gives of a described machine.
    """

    name: str
    cloud: str
    gpus: int = 0
    gpu: Gpu | None = None
    gpu_memory_mib: int = 0
    vcpus: int
    memory_mib: int
    arch: str
    sockets: int
    nvme_gb: int = 0
    network_gbps: float = 0
    max_pods: int | None = None
    bare_metal: bool = False
    network_cards: int = 0
    efa_interfaces: int = 0
    capacity_block: bool = False
    ebs_baseline_mbps: int = 0
    ebs_mbps: int = 0
    own_price: "Price | None" = None


class Price(Record):
    """USD per hour with its source and ISO date. `at_most`: an upper bound, the real price may be lower."""

    usd_per_hour: float
    at_most: bool
    source: str
    date: str


class UnknownMachine(KeyError):  # noqa: N818 - a name, as KeyError's callers read it
    """No machine has this name. The message suggests the closest names."""

    def __init__(self, name: str) -> None:
        import difflib  # noqa: PLC0415 - only an error needs it, and loading must stay fast

        names = {spelling.lower(): spelling for spelling in _machines()}
        fix = "write a GPU type of fleet/facts/data/instances.csv, such as g4dn.xlarge"
        if close := difflib.get_close_matches(name.lower(), names, n=3):
            fix = f"did you mean {', '.join(names[match] for match in close)}?"
        super().__init__(f"unknown machine {name!r}; {fix}")
        self.name = name

    def __str__(self) -> str:
        """The message without the quotes that KeyError adds."""
        return str(self.args[0])


def machine(name: str) -> Machine:
    """The machine with this name, in the cloud's spelling. Raises UnknownMachine."""
    if (row := find(name)) is None:
        raise UnknownMachine(name)
    return row


def find(name: str) -> Machine | None:
    """The machine with this name; None if the table has none."""
    return _machines().get(name)


def machines(cloud: str | None = None) -> tuple[Machine, ...]:
    """Every machine in the order of the table, or those of one cloud ("aws" or "oci")."""
    return tuple(row for row in _machines().values() if cloud in (None, row.cloud))


def flexible(name: str, ocpus: int, memory: int) -> Machine:
    """A machine of a flexible OCI shape without GPU: `ocpus` x86 cores of two threads each, `memory` in MiB.

    It has one network card per OCPU, and at least two. Pods have 31 addresses on each card except the first (docs.oracle.com,
    compute shapes and OCI VCN-native pod networking).
    """
    pods = (max(ocpus, 2) - 1) * 31
    return Machine(name=name, cloud="oci", vcpus=ocpus * 2, memory_mib=memory, arch="x86_64", sockets=1, max_pods=pods)


def price_of(machine: Machine, region: str, capacity: str) -> Price | None:
    """The price of a machine that may be described: what the stack file says, or else as `price` has it."""
    return machine.own_price if machine.cloud == OWNED else price(machine.name, region, capacity)


def price(name: str, region: str, capacity: str) -> Price | None:
    """The price of the machine for an hour in a region. None if no source gives a price, never 0.

    `capacity` is "on-demand", "spot", "reserved" or "capacity-block"; raises ValueError for another. If a spot price is not
    known, the on-demand price is its upper bound. A reserved machine costs its on-demand price, whether it is used or not (EC2
    user guide, capacity reservation pricing). OCI charges less while it is unused, so there the on-demand price is an upper
    bound. A capacity block has a price of its own, which no other price bounds: AWS sets it by supply and demand.
    """
    if capacity not in (ON_DEMAND, SPOT, RESERVED, CAPACITY_BLOCK):
        raise ValueError(f"capacity: {ON_DEMAND}, {SPOT}, {RESERVED} or {CAPACITY_BLOCK}, not {capacity!r}; write one of them")
    if (exact := _price(name, region, capacity)) is not None or capacity in (ON_DEMAND, CAPACITY_BLOCK):
        return exact
    if (bound := _price(name, region, ON_DEMAND)) is None:
        return None
    less = capacity == SPOT or machine(name).cloud != "aws"
    return Price(bound.usd_per_hour, at_most=less, source=bound.source, date=bound.date)


def preemptible(machine: Machine) -> bool:
    """Whether the cloud sells this machine as spot. EC2 does for every type, OCI for the shapes that have a spot price."""
    return machine.cloud == "aws" or (machine.cloud == "oci" and _price(machine.name, _EVERYWHERE, SPOT) is not None)


def quota_code(machine: Machine, capacity: str) -> str | None:
    """The quota that a machine of this capacity type counts against: an EC2 quota code, or a name of OCI's family compute-core.

    None if no source names one. An EC2 capacity reservation counts as on-demand, a capacity block against no quota of vCPUs.
    """
    return _quotas().get((machine.cloud, machine.name.rpartition(".")[0], capacity))


def quota_units(machine: Machine) -> int:
    """How many units of its quota one machine uses: EC2 counts vCPUs, OCI counts the GPUs of GPU shapes."""
    return machine.vcpus if machine.cloud == "aws" else machine.gpus


def unit_price(item: str, region: str) -> Price | None:
    """The price for an hour of an item that is not a machine. None if it is not known, never 0.

    Items on AWS: "eks-control-plane" and "eks-control-plane-extended" (`fleet.facts.support` selects one by the day),
    "nat-gateway" (without traffic), "nat-gateway-gb" (a GB through it, for no time), "public-ipv4", "kms-key". Of storage:
    "log-gb" (a GB that CloudWatch Logs takes in, for no time), "ecr-gb" (a GB in ECR), "efs-gb" and "s3-gb" (a GB in EFS
    Standard and in S3 Standard). Of volumes: "gp3-gb" (a GiB: the monthly price / 730), "gp3-iops" and "gp3-mibps" (one beyond
    those that every volume includes), "ebs-snapshot-gb" (a GiB of snapshot). On OCI: "oke-enhanced-cluster", "oci-e5-ocpu" and
    "oci-e5-gb" (VM.Standard.E5.Flex, an OCPU and a GB), "oci-volume-gb" (a GB of balanced block volume), "oci-vpu-gb" (one more
    VPU for a GB of it), "oci-fss-gb" (a GB in File Storage). Everywhere: "github-runner-minute" (a minute of a runner of your
    own), "github-gpu-minute" (a minute of GitHub's own runner with a T4 and 4 CPUs).
    """
    return _price(item, region, _UNIT)


def _price(item: str, region: str, capacity: str) -> Price | None:
    table = _prices()
    return table.get((item, region, capacity)) or table.get((item, _EVERYWHERE, capacity))


@cache
def _prices() -> dict[tuple[str, str, str], Price]:
    return {(row["item"], row["region"], row["capacity"]): entry(Price, row, at_most=False) for row in rows("prices.csv")}


@cache
def _quotas() -> dict[tuple[str, str, str], str]:
    """Codes by cloud, family (a name up to its last full stop) and capacity."""
    return {
        (row["cloud"], family, capacity): row["code"]
        for row in rows("quotas.csv")
        for family in row["families"].split()
        for capacity in row["capacities"].split()
    }


@cache
def gpus() -> dict[str, Gpu]:
    """Every GPU model by its name, in the order of the table."""
    return {row["name"]: entry(Gpu, row) for row in rows("gpus.csv")}


@cache
def _machines() -> dict[str, Machine]:
    return {row["name"]: entry(Machine, row, gpu=gpus().get(row["gpu"])) for row in rows("instances.csv")}
