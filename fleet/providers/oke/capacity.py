"""How to ask OCI whether it has machines of a shape now. No offline source says that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fleet.providers.oke.nodes import OkePool
from fleet.providers.oke.vm_runner import MachineRunner, VmPerJobRunner, VmRunner

Where = tuple[str, str]
"""Region and availability domain."""


def capacity_reports(
    region: str,
    zones: Iterable[str],
    tenancy: str | None,
    pools: Iterable[OkePool],
    runners: Iterable[MachineRunner],
) -> Iterator[str]:
    """A line for each availability domain with the command that asks OCI for its GPU shapes there.

    A reservation holds its machines already, so reserved pools are left out. The compartment of a report must be the root.
    """
    shapes: dict[Where, list[str]] = {}
    for place, shape in _wanted(region, tuple(zones), pools, runners):
        asked = shapes.setdefault(place, [])
        if shape not in asked:
            asked.append(shape)
    for (where, domain), asked in shapes.items():
        listed = json.dumps([{"instanceShape": shape} for shape in asked])
        yield (
            f"capacity: undeterminable: whether OCI has {' and '.join(asked)} in {domain}; ask with oci compute "
            f"compute-capacity-report create --region {where} --compartment-id {tenancy or '<OCID of the tenancy>'} "
            f"--availability-domain {domain} --shape-availabilities '{listed}'"
        )


def _wanted(
    region: str, zones: tuple[str, ...], pools: Iterable[OkePool], runners: Iterable[MachineRunner]
) -> Iterator[tuple[Where, str]]:
    for pool in pools:
        if pool.reservation is None:
            yield from (((region, zone), shape) for zone in pool.zones or zones for shape in pool.instance_types)
    for runner in runners:
        if isinstance(runner, VmRunner):
            yield from (((region, domain), shape) for domain in runner.availability_domains for shape in runner.shapes)
        elif isinstance(runner, VmPerJobRunner):
            for place in runner.places:
                yield from (((place.region, domain), shape) for domain in place.availability_domains for shape in runner.shapes)
