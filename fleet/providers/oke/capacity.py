"""How to ask OCI whether it has machines now. No offline source says that."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.vm_runner import VmPerJobRunner, VmRunner


def remarks(name: str, cluster: OkePools) -> Iterator[str]:
    """A line for each availability domain of a cluster, with the command that asks for a report on its GPU shapes.

    A reservation holds its machines already, so reserved pools are left out. The compartment of a report must be the root
    (OCI API, CreateComputeCapacityReportDetails).
    """
    shapes_of: dict[tuple[str, str], dict[str, None]] = {}
    for region, domain, shape in _wanted(cluster):
        shapes_of.setdefault((region, domain), {})[shape] = None
    for (region, domain), shapes in shapes_of.items():
        listed = json.dumps([{"instanceShape": shape} for shape in shapes])
        yield (
            f"{name}: capacity: undeterminable: whether OCI has {' and '.join(shapes)} in {domain}; ask with oci compute "
            f"compute-capacity-report create --region {region} --compartment-id {cluster.tenancy or '<OCID of the tenancy>'} "
            f"--availability-domain {domain} --shape-availabilities '{listed}'"
        )


def _wanted(cluster: OkePools) -> Iterator[tuple[str, str, str]]:
    """Region, availability domain and shape of the machines that a cluster may ask OCI for."""
    for pool in cluster.pools.values():
        for domain in (pool.zones or cluster.zones) if pool.reservation is None else ():
            yield from ((cluster.region, domain, shape) for shape in pool.instance_types)
    for _, runner in cluster.machine_runners():
        here = [(cluster.region, runner.availability_domains)] if isinstance(runner, VmRunner) else []
        places = runner.places if isinstance(runner, VmPerJobRunner) else ()
        for region, domains in (*here, *((place.region, place.availability_domains) for place in places)):
            yield from ((region, domain, shape) for domain in domains for shape in runner.shapes)
