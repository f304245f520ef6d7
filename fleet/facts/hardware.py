"""Machines, their GPUs, prices and quotas: one table, read from `data/*.csv`.

Standard library only: the policy pack ships this module. Sources, dates and how to update: `data/README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fleet.facts.tables import rows

ON_DEMAND = "on-demand"
SPOT = "spot"
RESERVED = "reserved"

_UNIT = "unit"
_EVERYWHERE = "*"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model.

    `compute_capability` is NVIDIA's ("7.5"), empty for AMD. `accelerator` is the value of the accelerator label that
    Cluster Autoscaler knows, or one in the same style. The driver branches are NVIDIA's (580): the newest that still
    drives the GPU and the oldest that does; None where no limit is known.
    """

    name: str
    vendor: str
    architecture: str
    compute_capability: str
    accelerator: str
    mig: bool
    max_driver_branch: int | None
    min_driver_branch: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """One instance type, shape or owned machine.

    `cloud` is "aws", "oci" or "owned"; `arch` is "x86_64" or "arm64". `gpu_memory_mib` is that of one GPU, 0 without
    GPU. `nvme_gb` (10^9 bytes) is the sum of the local disks, 0 where there is none or none is known. `network_gbps` is
    the sustained bandwidth, 0 where it is not known. `max_pods` is how many pods the network has addresses for: the VPC
    CNI's limit without prefix delegation; None outside EC2, flexible shapes aside.
    """

    name: str
    cloud: str
    gpus: int
    gpu: Gpu | None
    gpu_memory_mib: int
    vcpus: int
    memory_mib: int
    arch: str
    sockets: int
    nvme_gb: int
    network_gbps: float
    max_pods: int | None
    bare_metal: bool


@dataclass(frozen=True, slots=True)
class Price:
    """USD per hour with its source and ISO date. `at_most` marks an upper bound: the real price may be lower."""

    usd_per_hour: float
    at_most: bool
    source: str
    date: str


class UnknownMachine(KeyError):  # noqa: N818 - a name, as KeyError's callers read it
    """No machine has this name; the message offers the closest ones."""

    def __init__(self, name: str) -> None:
        import difflib  # noqa: PLC0415 - only an error needs it, and loading must stay fast

        close = difflib.get_close_matches(name, _machines(), n=3)
        mend = f"did you mean {', '.join(close)}?" if close else "names are those of fleet/facts/data/instances.csv"
        super().__init__(f"unknown machine {name!r}; {mend}")
        self.name = name

    def __str__(self) -> str:
        """The message as written: KeyError would quote it."""
        return str(self.args[0])


def machine(name: str) -> Machine:
    """The machine of this name, as the cloud spells it. Raises UnknownMachine."""
    found = _machines().get(name)
    if found is None:
        raise UnknownMachine(name)
    return found


def machines(cloud: str | None = None) -> tuple[Machine, ...]:
    """Every machine in table order, of one cloud ("aws", "oci", "owned") if named."""
    return tuple(each for each in _machines().values() if cloud in (None, each.cloud))


def flexible(name: str, ocpus: int, memory: int) -> Machine:
    """A machine of a flexible OCI shape without GPU: `ocpus` x86 cores of two threads each, `memory` in MiB.

    It has a network card for each OCPU, two at least, and pods have 31 addresses on each card but the first (docs.oracle.com,
    compute shapes and OCI VCN-native pod networking).
    """
    return Machine(
        name=name,
        cloud="oci",
        gpus=0,
        gpu=None,
        gpu_memory_mib=0,
        vcpus=ocpus * 2,
        memory_mib=memory,
        arch="x86_64",
        sockets=1,
        nvme_gb=0,
        network_gbps=0,
        max_pods=(max(ocpus, 2) - 1) * 31,
        bare_metal=False,
    )


def price(name: str, region: str, capacity: str) -> Price | None:
    """What an hour of the machine costs in a region; None where no sourced price is known, never 0.

    `capacity` is "on-demand", "spot" or "reserved", else ValueError. Spot without a price of its own is bounded by on-demand. A
    reserved machine costs what it does on demand, in use or not (EC2 user guide, capacity reservation pricing); OCI takes less
    while it is unused, so that is a bound there.
    """
    if capacity not in (ON_DEMAND, SPOT, RESERVED):
        raise ValueError(f"capacity: {ON_DEMAND}, {SPOT} or {RESERVED}, not {capacity!r}; write one of them")
    exact = _price(name, region, capacity)
    if exact is not None or capacity == ON_DEMAND:
        return exact
    bound = _price(name, region, ON_DEMAND)
    if bound is None:
        return None
    less = capacity == SPOT or machine(name).cloud != "aws"
    return Price(bound.usd_per_hour, at_most=less, source=bound.source, date=bound.date)


def preemptible(found: Machine) -> bool:
    """Whether the cloud sells this machine as spot. EC2 sells every type so; OCI a list of shapes, which have a spot price."""
    return found.cloud == "aws" or (found.cloud == "oci" and _price(found.name, _EVERYWHERE, SPOT) is not None)


def quota_code(found: Machine, capacity: str) -> str | None:
    """The quota that the machine counts against when it is bought so: a code of EC2's, a name of OCI's family compute-core.

    None where no source names one. A reservation of EC2 counts as on demand.
    """
    return _quotas().get((found.cloud, found.name.rpartition(".")[0], capacity))


def quota_units(found: Machine) -> int:
    """How much of its quota one machine takes: EC2 counts vCPUs, OCI the GPUs of GPU shapes."""
    return found.vcpus if found.cloud == "aws" else found.gpus


def unit_price(item: str, region: str) -> Price | None:
    """What an hour of something that is no machine costs; None where unknown, never 0.

    Items: "eks-control-plane" and "eks-control-plane-extended" (`fleet.facts.support` says which on a day), "nat-gateway" (one,
    without traffic), "gp3-gb" (a GiB of volume: the price of a month / 730), "gp3-iops" and "gp3-mibps" (one beyond those that
    each has), "efs-gb" (a GB in EFS Standard); on OCI "oke-enhanced-cluster", "oci-e5-ocpu" and "oci-e5-gb"
    (VM.Standard.E5.Flex, an OCPU and a GB), "oci-volume-gb" (a GB of balanced block volume), "oci-vpu-gb" (a VPU more for a GB
    of it), "oci-fss-gb" (a GB in File Storage).
    """
    return _price(item, region, _UNIT)


def _price(item: str, region: str, capacity: str) -> Price | None:
    table = _prices()
    return table.get((item, region, capacity)) or table.get((item, _EVERYWHERE, capacity))


@cache
def _prices() -> dict[tuple[str, str, str], Price]:
    return {
        (row["item"], row["region"], row["capacity"]): Price(
            float(row["usd_per_hour"]), at_most=False, source=row["source"], date=row["date"]
        )
        for row in rows("prices.csv")
    }


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
def _machines() -> dict[str, Machine]:
    gpus = {row["name"]: _gpu(row) for row in rows("gpus.csv")}
    return {row["name"]: _machine(row, gpus) for row in rows("instances.csv")}


def _machine(row: dict[str, str], gpus: dict[str, Gpu]) -> Machine:
    return Machine(
        name=row["name"],
        cloud=row["cloud"],
        gpus=int(row["gpus"]),
        gpu=gpus[row["gpu"]] if row["gpu"] else None,
        gpu_memory_mib=int(row["gpu_memory_mib"]),
        vcpus=int(row["vcpus"]),
        memory_mib=int(row["memory_mib"]),
        arch=row["arch"],
        sockets=int(row["sockets"]),
        nvme_gb=int(row["nvme_gb"] or 0),
        network_gbps=float(row["network_gbps"] or 0),
        max_pods=_optional(row["max_pods"]),
        bare_metal=row["bare_metal"] == "true",
    )


def _gpu(row: dict[str, str]) -> Gpu:
    return Gpu(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row["compute_capability"],
        accelerator=row["accelerator"],
        mig=row["mig"] == "true",
        max_driver_branch=_optional(row["max_driver_branch"]),
        min_driver_branch=_optional(row["min_driver_branch"]),
    )


def _optional(text: str) -> int | None:
    return int(text) if text else None
