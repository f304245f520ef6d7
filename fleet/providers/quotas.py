"""What a fleet at its maximum takes of its clouds' quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.facts.hardware import Machine, quota_code, quota_units


@dataclass(frozen=True, slots=True)
class Need:
    """What one pool or set of machines takes of a quota at its maximum.

    `units` are vCPUs on EC2 and GPUs on OCI; `code` is None where no quota is known that `machine` counts against.
    `compartment` is an OCID, empty on EC2.
    """

    machine: str
    capacity: str
    code: str | None
    units: int
    region: str
    compartment: str = ""


def needs(machines: Sequence[Machine], capacity: str, count: int, region: str, compartment: str = "") -> Iterator[Need]:
    """Those of a group of `count` machines, each of any of some types: of each quota as much as its largest type takes."""
    largest: dict[str | None, Machine] = {}
    for machine in sorted(machines, key=quota_units):
        largest[quota_code(machine, capacity)] = machine
    for code, machine in largest.items():
        yield Need(machine.name, capacity, code, count * quota_units(machine), region, compartment)
