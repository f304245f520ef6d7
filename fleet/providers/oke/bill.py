"""The hourly cost of an OKE cluster and its machines."""

from collections.abc import Iterator
from datetime import date

from fleet.facts.bill import Paid
from fleet.facts.pricing import Line, bundle, nodes, units
from fleet.providers.cache_bill import cache_lines
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.nodes import FLEX_SHAPE

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
