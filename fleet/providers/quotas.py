"""Quotas of the clouds that a fleet needs at its maximum size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.facts.hardware import Machine, quota_code, quota_units


@dataclass(frozen=True, slots=True)
class Need:
    """The units of a quota that one pool or set of machines needs at its maximum size.

    `units` are vCPUs on EC2 and GPUs on OCI. `code` is None if the quota of `machine` is unknown. `compartment` is an OCID,
    empty on EC2.
    """

    machine: str
    capacity: str
    code: str | None
    units: int
    region: str
    compartment: str = ""


def needs(machines: Sequence[Machine], capacity: str, count: int, region: str, compartment: str = "") -> Iterator[Need]:
    """The needs of `count` machines, each of any of the types. The largest type of a quota sets its units."""
    largest: dict[str | None, Machine] = {}
    for machine in sorted(machines, key=quota_units):
        largest[quota_code(machine, capacity)] = machine
    for code, machine in largest.items():
        yield Need(machine.name, capacity, code, count * quota_units(machine), region, compartment)
