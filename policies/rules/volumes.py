"""Disks of a machine for its bill: root volumes and the other disks that a launch template maps."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.facts.disks import GP3_IOPS, GP3_MIBPS
from fleet.facts.pricing import gp3_volume
from fleet.facts.quantities import quantity

from .read import Data, Later, items, keys, text, walk

# Default sizes: EKS API, CreateNodegroup (diskSize); the smallest of OCI (API reference, InstanceSourceDetails).
_EKS_GB = 20
_OCI_GB = 50
_OCI_UNIT = "oci-volume-gb"
# The volume type of EKS' node images if a template has none.
_GP3 = "gp3"


@dataclass(frozen=True, slots=True)
class Volume:
    """All disks of one machine: the amount of each unit of the price table (`fleet.facts.hardware.unit_price`)."""

    parts: Mapping[str, float]


def of_template(template: Data) -> Volume:
    """Disks that an EC2 launch template maps; EKS' default if it maps none. Raises UnknownError."""
    later = Later()
    mapped = [volume for _, mapping in items(walk(template, "blockDeviceMappings"), later) for volume in _mapped(mapping)]
    later.settle()
    if not mapped:
        return of_ec2(None)
    parts = Counter[str]()
    for volume in mapped:
        parts.update(volume.parts)
    return Volume(parts)


def of_ec2(size: Data, kind: Data = None, iops: Data = None, throughput: Data = None) -> Volume:
    """A root volume of EC2 by size, type and performance, with EKS' default size and the performance of every gp3 volume."""
    gigabytes = _positive(size, _EKS_GB)
    if (name := text(kind) or _GP3) != _GP3:
        return Volume({f"{name}-gb": gigabytes})
    return Volume(gp3_volume(gigabytes, _positive(iops, GP3_IOPS), _positive(throughput, GP3_MIBPS)))


def of_oci(size: Data) -> Volume:
    """The boot volume of an OCI machine by its size, with OCI's smallest size as default."""
    return Volume({_OCI_UNIT: _positive(size, _OCI_GB)})


def _mapped(mapping: Data) -> Iterator[Volume]:
    volume = walk(mapping, "ebs")
    if keys(volume):
        yield of_ec2(*(walk(volume, key) for key in ("volumeSize", "volumeType", "iops", "throughput")))


def _positive(amount: Data, otherwise: float) -> float:
    number = quantity(amount)
    return otherwise if number is None or number <= 0 else float(number)
