"""The nodes of GPU pools in the worst hour, in which no runner counts in two pools.

The autoscaler starts a node only for a pod that no node of its pools has room for. So when a node starts, at least one runner
runs on every other node of the pools that the same runner sets use. Together such pools never have more nodes than these sets
have runners, and the most expensive nodes count first. A pool that no other pool shares its sets with counts at its maximum.
Nodes in quarantine (docs/node-health.md) have no runner either, so as many as may be there at once are added.

Other users start nodes without a runner: queues, workloads, jobs, placeholders, warm pools. Pools with such a user count at their
maximum, and so do reservations. Two things are left out: jobs that the settings do not name, and the minutes in which a cloud
replaces a node while the old one still runs. Both stay within each pool's maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fleet.facts import hardware
from fleet.facts.pricing import Line, Money, nodes, quoted
from fleet.settings.cluster import Cluster
from fleet.settings.health import nodes_at_once
from fleet.settings.pool import Pool
from fleet.settings.workloads import CoralWorkload, PoolWorkload


def most_nodes(cluster: Cluster) -> dict[str, int]:
    """The nodes of each pool that are paid for in the worst hour."""
    most = {name: pool.paid_nodes[1] for name, pool in cluster.pools.items()}
    for pools, started in _sharing(cluster):
        spare = max(started - sum(pool.idle_nodes for pool in pools.values()), 0)
        for name in sorted(pools, key=lambda name: _rank(cluster, pools[name]), reverse=True):
            more = min(most[name] - pools[name].idle_nodes, spare)
            most[name], spare = pools[name].idle_nodes + more, spare - more
    return most


def pool_line(cluster: str, name: str, pool: Pool, region: str, most: int) -> Line:
    """The line of a pool's nodes with `most` of them in the worst hour."""
    least, full = pool.paid_nodes
    line = nodes(cluster, f"pool {name}", pool.instance_types, region, pool.capacity, least + pool.scheduled_nodes, most)
    return line if most == full else replace(line, what=f"{line.what}, {most} of {full} nodes: no runner counts in two pools")


def _sharing(cluster: Cluster) -> Iterator[tuple[dict[str, Pool], int]]:
    """The pools that only runners use, in groups with the same runner sets, and the most nodes of a group that start for these.

    That is one for each runner, and one for each node that may be in quarantine.
    """
    if any(not job.ordered for job in cluster.jobs.values()):
        return
    others: frozenset[str | None] = frozenset(cluster.queues.pools if cluster.queues is not None else ())
    others |= {each.pool for each in cluster.workloads.values() if isinstance(each, PoolWorkload | CoralWorkload)}
    others |= {pool for job in cluster.jobs.values() for pool in job.ordered}
    groups: dict[frozenset[str], dict[str, Pool]] = {}
    for name in sorted(cluster.runner_pools - others):
        pool = cluster.pools[name]
        if pool.reservation is None and not (pool.placeholders or pool.schedules) and getattr(pool, "warm", None) is None:
            groups.setdefault(frozenset(cluster.pod_sets(name)), {})[name] = pool
    for sets, pools in groups.items():
        if len(pools) > 1:
            sick = (nodes_at_once(cluster.health.max_share, pool.nodes.max) for pool in pools.values()) if cluster.health else ()
            yield pools, sum(cluster.runners[name].span.max for name in sets) + sum(sick)


def node_hour(cluster: Cluster, pool: Pool, machine: str) -> Money:
    """USD an hour of one node of a pool with its disk."""
    parts = (quoted(hardware.unit_price(unit, cluster.region)).times(count) for unit, count in cluster.node_disk(pool).items())
    return sum(parts, pool.price(machine, cluster.region))


def rank(price: Money) -> tuple[int, float]:
    """Sort key: an unknown price is the highest."""
    return price.unknown, price.usd


def _rank(cluster: Cluster, pool: Pool) -> tuple[int, float]:
    """Sort key of a pool: what a node of its most expensive type costs."""
    return max(rank(node_hour(cluster, pool, name)) for name in pool.instance_types)
