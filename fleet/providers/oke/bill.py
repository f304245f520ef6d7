"""The hourly cost of an OKE cluster and its machines, and OCI quota statements for the GPUs of pools and machines."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line, bundle, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.nodes import FLEX_SHAPE
from fleet.providers.provider import Need, needs

SURGE = 1
"""How many more nodes OKE starts while it replaces nodes of the system pool."""


def oke_bill(name: str, cluster: OkePools, day: date) -> Iterator[Paid | Line]:
    """GPU pools, machines that are runners, system pool, control plane and caches.

    Of a cluster that exists already the stack pays only the pools and their disks. No price of OCI depends on the day.
    """
    region = cluster.region
    for pool_name, pool in cluster.pools.items():
        line = nodes(name, f"pool {pool_name}", pool.instance_types, region, pool.capacity, pool.nodes.min, pool.nodes.max)
        reserved = pool.reservation.count if pool.reservation is not None else None
        yield Paid(name=pool_name, line=line, region=region, disk=cluster.node_disk(pool), prepaid=reserved)
    for set_name, runner in cluster.machine_runners():
        least, most = runner.span.min, runner.span.max
        item = f"machines {set_name}"
        lines = [nodes(name, item, runner.shapes, where, runner.capacity, least, most) for where in cluster.regions_of(runner)]
        # The launcher takes the first region with capacity, so the bill has the most expensive one.
        line = max(lines, key=lambda line: (line.dear.unknown, line.dear.usd))
        yield Paid(name=item, line=line, region=region, disk=cluster.disk_parts(runner.disk // 1024))
    if isinstance(cluster, OkeCluster):
        system = cluster.system
        gigabytes = system.memory // 1024
        node = {"oci-e5-ocpu": system.ocpus, "oci-e5-gb": gigabytes}
        text = f"{FLEX_SHAPE}, {system.ocpus} OCPU, {gigabytes} GB"
        line = bundle(name, "system pool", text, node, region, system.nodes, system.nodes)
        yield Paid(name="system pool", line=line, region=region, disk=cluster.disk_parts(system.disk // 1024), spare=SURGE)
        yield units(name, "control plane", "OKE enhanced cluster", "oke-enhanced-cluster", region, 1, 1)
    yield from cache_lines(name, cluster)


_REPLACED = 2
"""Machines of jobs count twice, because a terminating one may still count while the next one boots."""


def oke_needs(declaring: OkePools, clusters: Iterable[OkePools]) -> tuple[Need, ...]:
    """The needs of all GPU nodes and machines in or below the cluster's compartments, by region."""
    fleet_clusters = tuple(clusters)
    counted = {ocid for _, below in _compartments(declaring, fleet_clusters) for ocid in below}
    return tuple(need for cluster in fleet_clusters for need in own_needs(cluster) if need.compartment in counted)


def own_needs(cluster: OkePools) -> Iterator[Need]:
    """The needs of the GPU nodes and machines of one cluster, whether or not the paths of its compartments are known."""
    for pool in cluster.pools.values():
        yield from needs(pool.machines, pool.capacity, pool.nodes.max, cluster.region, cluster.compartment)
    for _, runner in cluster.machine_runners():
        for region in cluster.regions_of(runner):
            yield from needs(runner.machines, runner.capacity, _REPLACED * runner.span.max, region, cluster.machines_in)


def oke_quotas(declaring: OkePools, clusters: Iterable[OkePools]) -> tuple[str, ...]:
    """Statements that limit each GPU series to the need of the fleet (docs.oracle.com, quota policy syntax).

    A quota applies per availability domain, and any domain may get all machines. Resources of a compartment also count in the
    compartments above it.
    """
    fleet_clusters = tuple(clusters)
    fleet_needs = oke_needs(declaring, fleet_clusters)
    allowed: Counter[tuple[str, str, str]] = Counter()
    for path, below in _compartments(declaring, fleet_clusters):
        for need in fleet_needs:
            if need.code is not None and need.compartment in below:
                allowed[path, need.region, need.code] += need.units
    return tuple(
        f"set compute-core quota {code} to {gpus} in compartment {path} where request.region = '{region}'"
        for (path, region, code), gpus in sorted(allowed.items())
    )


def _compartments(declaring: OkePools, clusters: Sequence[OkePools]) -> Iterator[tuple[str, set[str]]]:
    """(path, OCIDs of the fleet's compartments that are it or below it) of each compartment of a cluster."""
    paths = {ocid: path for cluster in (*clusters, declaring) for ocid, path in cluster.quota_paths.items()}
    for path in dict.fromkeys(declaring.quota_paths.values()):
        yield path, {ocid for ocid, inner in paths.items() if f"{inner}:".startswith(f"{path}:")}
