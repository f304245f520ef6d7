"""What schedules keep and cost: exactly in one week, and on average in the bill."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from fleet.facts.pricing import Line, Money, span
from fleet.prove.placement import Host, fit, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.providers.worst import node_hour, rank
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from fleet.settings.schedules import WEEK_HOURS, Schedules, Window

_ROUNDING = 1e-9


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
                hours = sum(each.hours for each in schedules.openings(first) if each.window == key)
                found = ways(window)
                prices = (each.pool.price(each.machine, cluster.region).times(each.added * hours) for each in found)
                added = [each.added for each in found]
                keeps = f"{window.count} {window.KEY if window.count > 1 else window.KEY.removesuffix('s')}"
                opens = f"{window} {schedules.time_zone}"
                yield Week(f"{name}/{owner}/{key}", opens, keeps, hours, (min(added), max(added)), span(prices))


def waiting_lines(cluster: Cluster, lines: Iterable[Line]) -> Iterator[Line]:
    """Lines of the nodes for runners that wait in windows, with their disks. `lines` are the cluster's other lines.

    They are averages over a week without holidays, on the most expensive type. They are in addition to all nodes that a pool
    keeps, although runners may wait on those. But a pool never has more nodes than in the worst hour: further runners count in
    the class's next pool by price. `most` is 0, because the lines of the pools have all nodes of the worst hour.
    """
    pools = {line.item: line for line in lines}
    room = {item: line.most - line.least for item, line in pools.items()}
    for set_name, runner, schedules, hosts in _runners(cluster):
        part = 1.0
        for way, wanted in sorted(_averages(cluster, hosts, runner, schedules), key=partial(_cost, cluster), reverse=True):
            item, price = f"pool {way.name}", node_hour(cluster, way.pool, way.machine)
            least = min(wanted * part, room[item])
            if least > _ROUNDING:
                room[item] -= least
                part -= least / wanted
                called = f"waiting runners {set_name}" + (f" in {way.name}" if len(runner.ordered) > 1 else "")
                what = f"{way.machine} {way.pool.capacity}"
                yield replace(pools[item], item=called, what=what, least=least, most=0, cheap=price, dear=price)


def _averages(
    cluster: Cluster, hosts: Mapping[str, Host], runner: PodRunner, schedules: Schedules
) -> Iterator[tuple[Way, float]]:
    """Each way to hold all runners that wait in windows, and its nodes as an average over a week."""
    windows = list(schedules.windows.values())
    for ways in zip(*(_runner_ways(cluster, hosts, runner, window) for window in windows), strict=True):
        average = sum(way.added * window.week_hours for way, window in zip(ways, windows, strict=True)) / WEEK_HOURS
        yield ways[0], average


def _cost(cluster: Cluster, found: tuple[Way, float]) -> tuple[int, float]:
    way, average = found
    return rank(node_hour(cluster, way.pool, way.machine).times(average))


def _scheduled(cluster: Cluster) -> Iterator[tuple[str, Schedules, Callable[[Window], list[Way]]]]:
    """Each pool and runner set with schedules, and what one of its windows adds."""
    for name, pool in cluster.pools.items():
        if pool.schedules is not None:
            yield f"pool {name}", pool.schedules, partial(_pool_ways, name, pool)
    for name, runner, schedules, hosts in _runners(cluster):
        yield name, schedules, partial(_runner_ways, cluster, hosts, runner)


def _runners(cluster: Cluster) -> Iterator[tuple[str, PodRunner, Schedules, Mapping[str, Host]]]:
    """Name, class and schedules of each runner set with schedules, and the hosts of the cluster."""
    found = [(name, runner, runner.schedules) for name, runner in cluster.pod_runners.items() if runner.schedules is not None]
    hosts = pool_hosts(cluster) if found else {}
    yield from ((*each, hosts) for each in found)


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
            each = max(fit(runner, machine, hosts[name]).count, 1)
            added = math.ceil(window.count / each) - math.ceil(runner.scale.min / each)
            ways.append(Way(name, pool, machine.name, added if least < most else 0))
    return ways
