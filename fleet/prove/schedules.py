"""What each window of a schedule keeps and costs in one week."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial

from fleet.facts.pricing import Money, span
from fleet.prove.placement import fit, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from fleet.settings.schedules import Schedules, Window

Way = tuple[Pool, str, int]
"""A pool, one of its machine types, and the nodes that a window adds if they are of that type."""


@dataclass(frozen=True, slots=True)
class Week:
    """A window in the seven local days from a day. `nodes` are the fewest and the most that it adds, `usd` what they cost."""

    name: str
    opens: str
    keeps: str
    hours: float
    nodes: tuple[int, int]
    usd: tuple[Money, Money]


def weeks(fleet: Fleet, first: date) -> Iterator[Week]:
    """Every window in the week that starts on a day: without its holidays, and with clocks as they change. Without disks."""
    for name, cluster in fleet.clusters_by_name():
        for owner, schedules, ways in _scheduled(cluster):
            for key, window in schedules.windows.items():
                hours = sum(choice.hours for choice in schedules.openings(first) if choice.window == key)
                choices = list(ways(window))
                prices = (pool.price(machine, cluster.region).times(added * hours) for pool, machine, added in choices)
                more_nodes = [added for _, _, added in choices]
                keeps = f"{window.count} {window.KEY if window.count > 1 else window.KEY.removesuffix('s')}"
                opens = f"{window} {schedules.time_zone}"
                yield Week(f"{name}/{owner}/{key}", opens, keeps, hours, (min(more_nodes), max(more_nodes)), span(prices))


def _scheduled(cluster: Cluster) -> Iterator[tuple[str, Schedules, Callable[[Window], Iterable[Way]]]]:
    """Each pool and runner set with schedules, and what one of its windows adds."""
    for name, pool in cluster.pools.items():
        if pool.schedules is not None:
            yield f"pool {name}", pool.schedules, partial(_pool_ways, pool)
    for name, runner in cluster.pod_runners.items():
        if runner.schedules is not None:
            yield name, runner.schedules, partial(_runner_ways, cluster, runner)


def _pool_ways(pool: Pool, window: Window) -> Iterator[Way]:
    yield from ((pool, machine, max(window.count - pool.idle_nodes, 0)) for machine in pool.instance_types)


def _runner_ways(cluster: Cluster, runner: PodRunner, window: Window) -> Iterator[Way]:
    """The nodes that the runners of a window need beyond those of `scale.min`, on every type of every pool of the class.

    Pools whose number of nodes never changes, such as reservations, add none.
    """
    for name, host in pool_hosts(cluster, *runner.ordered).items():
        pool = cluster.pools[name]
        least, most = pool.paid_nodes
        for machine in host.machines:
            # A class that does not fit is refused elsewhere.
            per_node = max(fit(runner, machine, host).count, 1)
            more_nodes = math.ceil(window.count / per_node) - math.ceil(runner.scale.min / per_node)
            yield pool, machine.name, more_nodes if least < most else 0
