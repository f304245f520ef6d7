"""Disks of a machine for its bill: root volumes and the other disks that a launch template maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.facts.quantities import quantity

from .read import Later, items, keys, text, walk

# Default sizes: EKS API, CreateNodegroup (diskSize); the smallest of OCI (API reference, InstanceSourceDetails).
_EKS_GB = 20
_OCI_GB = 50
_OCI_UNIT = "oci-volume-gb"
# The volume type of EKS' node images if a template has none.
_EC2_TYPE = "gp3"


@dataclass(frozen=True, slots=True)
class Volume:
    """All disks of one machine: `gigabytes` at the price of `unit` (`fleet.facts.hardware.unit_price`)."""

    unit: str
    gigabytes: float


def of_template(template: Any) -> Volume:
    """Disks that an EC2 launch template maps; EKS' default if it maps none. Raises UnknownValueError."""
    later = Later()
    mapped = [volume for _, each in items(walk(template, "blockDeviceMappings"), later) for volume in _mapped(each)]
    later.settle()
    if not mapped:
        return of_ec2(None)
    return Volume(mapped[0].unit, sum(volume.gigabytes for volume in mapped))


def of_ec2(size: Any, kind: Any = None) -> Volume:
    """A root volume of EC2 by size and type, with EKS' default size."""
    return Volume(f"{text(kind) or _EC2_TYPE}-gb", _gigabytes(size, _EKS_GB))


def of_oci(size: Any) -> Volume:
    """The boot volume of an OCI machine by its size, with OCI's smallest size as default."""
    return Volume(_OCI_UNIT, _gigabytes(size, _OCI_GB))


def _mapped(mapping: Any) -> Iterator[Volume]:
    volume = walk(mapping, "ebs")
    if keys(volume):
        yield of_ec2(walk(volume, "volumeSize"), walk(volume, "volumeType"))


def _gigabytes(size: Any, otherwise: float) -> float:
    found = quantity(size)
    return otherwise if found is None or found <= 0 else float(found)
