"""What each window of a schedule keeps and costs in one week."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

from fleet.facts.pricing import Money, span
from fleet.prove.placement import Host, fit, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from fleet.settings.schedules import Schedules, Window


@dataclass(frozen=True, slots=True)
class Way:
    """The nodes that a window adds if they are of one machine type of the pool `name`."""

    name: str
    pool: Pool
    machine: str
    added: int


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
                choices = ways(window)
                prices = (choice.pool.price(choice.machine, cluster.region).times(choice.added * hours) for choice in choices)
                more_nodes = [choice.added for choice in choices]
                keeps = f"{window.count} {window.KEY if window.count > 1 else window.KEY.removesuffix('s')}"
                opens = f"{window} {schedules.time_zone}"
                yield Week(f"{name}/{owner}/{key}", opens, keeps, hours, (min(more_nodes), max(more_nodes)), span(prices))


def _scheduled(cluster: Cluster) -> Iterator[tuple[str, Schedules, Callable[[Window], list[Way]]]]:
    """Each pool and runner set with schedules, and what one of its windows adds."""
    for name, pool in cluster.pools.items():
        if pool.schedules is not None:
            yield f"pool {name}", pool.schedules, partial(_pool_ways, name, pool)
    for name, runner, schedules, hosts in _runners(cluster):
        yield name, schedules, partial(_runner_ways, cluster, hosts, runner)


def _runners(cluster: Cluster) -> Iterator[tuple[str, PodRunner, Schedules, Mapping[str, Host]]]:
    """Name, class and schedules of each runner set with schedules, and the hosts of the cluster."""
    scheduled = [(name, runner, runner.schedules) for name, runner in cluster.pod_runners.items() if runner.schedules is not None]
    hosts = pool_hosts(cluster) if scheduled else {}
    yield from ((*row, hosts) for row in scheduled)


def _pool_ways(name: str, pool: Pool, window: Window) -> list[Way]:
    return [Way(name, pool, machine, max(window.count - pool.idle_nodes, 0)) for machine in pool.instance_types]


def _runner_ways(cluster: Cluster, hosts: Mapping[str, Host], runner: PodRunner, window: Window) -> list[Way]:
    """The nodes that the runners of a window need beyond those of `scale.min`, on every type of every pool of the class.

    Pools whose number of nodes never changes, such as reservations, add none.
    """
    ways = []
    for name in runner.ordered:
        pool = cluster.pools[name]
        least, most = pool.paid_nodes
        for machine in hosts[name].machines:
            # A class that does not fit is refused elsewhere.
            per_node = max(fit(runner, machine, hosts[name]).count, 1)
            more_nodes = math.ceil(window.count / per_node) - math.ceil(runner.scale.min / per_node)
            ways.append(Way(name, pool, machine.name, more_nodes if least < most else 0))
    return ways
