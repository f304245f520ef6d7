"""What a plan says of spot pools: their price and interruptions so far, what else they could buy, and how EKS replaces nodes."""

from collections.abc import Iterator
from operator import attrgetter

from fleet.facts import hardware
from fleet.facts.hardware import SPOT, Machine
from fleet.facts.remark import below, costs, said, todo
from fleet.facts.spot import MAX_SPREAD, MIN_TYPES, MIN_ZONES, history, spread
from fleet.prove.placement import fit, pool_host
from fleet.prove.runner_pods import runner_ask
from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool


def remarks(fleet: Fleet) -> Iterator[str]:
    """Lines about the spot pools of clouds that sell several types to a pool, and what such a cloud does with spot nodes."""
    mixed: dict[str, list[str]] = {}
    for name, cluster in fleet.clusters_by_name():
        provider = provider_of(cluster)
        for pool in (pool for pool, settings in cluster.pools.items() if settings.capacity == SPOT and provider.mixed_spot):
            mixed.setdefault(provider.mixed_spot, []).append(f"{name}/{pool}")
            said = (costs(_figures(cluster.pools[pool], cluster.region)), *_types(cluster, pool), *_zones(cluster, pool))
            yield from (below(f"{name}: pool {pool}", each) for each in said)
    yield from (f"spot pools {', '.join(names)}: {what}" for what, names in mixed.items())


def _figures(pool: Pool, region: str) -> str:
    """Price and interruptions of each type of a pool, with sources."""
    seen = {name: row for name in pool.instance_types if (row := history(name, region)).sightings}
    texts = []
    if seen:
        figures = "; ".join(f"{name} {row}" for name, row in seen.items())
        sources = "; ".join(sorted({source for row in seen.values() for source in row.sources}))
        texts.append(f"spot so far: {figures} ({sources})")
    if unknown := [name for name in dict.fromkeys(pool.instance_types) if name not in seen]:
        texts.append(f"spot price and interruptions of {' and '.join(unknown)} in {region}: unknown")
    return "; ".join(texts)


def _types(cluster: Cluster, pool: str) -> Iterator[str]:
    """What a pool of one type could also buy. Every type named holds each runner class of the pool."""
    held = cluster.pools[pool]
    if len(set(held.instance_types)) >= MIN_TYPES:
        return
    jobs, fix = _without(cluster, pool), ""
    same = "the same GPUs" if held.has_gpus else "a similar size"
    if more := similar(cluster, pool):
        fix = said("more_types", types=" or ".join(machine.name for machine in more), same=same)
    elif jobs == "wait":
        fix = f"no similar type has {same} and holds its runner classes, so put an on-demand pool after it in pools"
    if fix:
        yield todo(f"it buys {held.machines[0].name} alone, and its jobs {jobs} if EC2 has none; {fix}")


def _without(cluster: Cluster, pool: str) -> str:
    """What the jobs of a pool do while EC2 has no machine for it: every class has a pool behind it, or some jobs wait."""
    orders = [runner.ordered for runner in cluster.pod_sets(pool).values()]
    return "go to the next pool" if orders and all(order[-1] != pool for order in orders) else "wait"


def similar(cluster: Cluster, pool: str) -> tuple[Machine, ...]:
    """The types that a pool could buy besides its own, in the order of the table.

    They have the same GPUs, similar vCPUs and memory, what the pool's own settings need, and hold each of
    its runner classes.
    """
    held, host = cluster.pools[pool], pool_host(cluster, pool)
    first, same = held.machines[0], attrgetter("gpu", "gpus", "gpu_memory_mib", "arch", "bare_metal")
    return tuple(
        machine
        for machine in hardware.machines(first.cloud)
        if machine not in held.machines
        and same(machine) == same(first)
        and spread(first, machine) <= MAX_SPREAD
        and held.could_buy(machine)
        and all(fit(runner_ask(runner), machine, host).count for runner in cluster.pod_sets(pool).values())
    )


def _zones(cluster: Cluster, pool: str) -> Iterator[str]:
    """Which zones of the cluster a pool in too few of them could use."""
    held = cluster.pools[pool]
    used = cluster.zones_with_nodes(held)
    others = [zone for zone in cluster.node_zones if zone not in used]
    if len(used) < MIN_ZONES and others:
        fix = "raise nodes.max" if held.nodes.max < MIN_ZONES else f"add {' or '.join(others)} to its zones, or remove zones"
        yield f"its nodes are in {' and '.join(used)} alone, and its jobs {_without(cluster, pool)} if EC2 has none there; {fix}"
