"""What schedules keep and cost: exactly in one week, and on average in the bill."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from fleet.facts.pricing import Line, Money, bundle, nodes, span
from fleet.prove.placement import fit, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner
from fleet.settings.schedules import WEEK_HOURS, Schedules, Window


@dataclass(frozen=True, slots=True)
class Way:
    """The nodes that a window adds if they are of one machine type of a pool."""

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


def waiting_lines(name: str, cluster: Cluster) -> Iterator[Line]:
    """Lines of the nodes for runners that wait in windows, with their disks; a pool's own windows are in the line of the pool.

    They are averages over a week without holidays, on the most expensive type. They are in addition to all nodes that the pool
    keeps, although runners may wait on those. `most` is 0, because they are among the nodes at the pool's maximum.
    """
    for set_name, runner in cluster.runners.items():
        if not isinstance(runner, PodRunner) or runner.schedules is None:
            continue
        lines: dict[tuple[int, str], Line] = {}
        for window in runner.schedules.windows.values():
            for way in _runner_ways(cluster, runner, window):
                line = _line(f"waiting runners {set_name}", name, cluster, way, window)
                before = lines.get((id(way.pool), way.machine))
                lines[id(way.pool), way.machine] = line if before is None else replace(line, least=line.least + before.least)
        yield max(lines.values(), key=lambda line: (line.dear.unknown, line.idle.usd))


def _line(item: str, name: str, cluster: Cluster, way: Way, window: Window) -> Line:
    pool, region = way.pool, cluster.region
    disk = bundle("", "", "", cluster.disk_parts(pool.disk // 1024), region, 1, 1).dear
    price = pool.price(way.machine, region) + disk
    least = way.added * window.week_hours / WEEK_HOURS
    return replace(nodes(name, item, (way.machine,), region, pool.capacity, least, 0), cheap=price, dear=price)


def _scheduled(cluster: Cluster) -> Iterator[tuple[str, Schedules, Callable[[Window], list[Way]]]]:
    """Each pool and runner set with schedules, and what one of its windows adds."""
    for name, pool in cluster.pools.items():
        if pool.schedules is not None:
            yield f"pool {name}", pool.schedules, partial(_pool_ways, pool)
    for name, runner in cluster.runners.items():
        if isinstance(runner, PodRunner) and runner.schedules is not None:
            yield name, runner.schedules, partial(_runner_ways, cluster, runner)


def _pool_ways(pool: Pool, window: Window) -> list[Way]:
    return [Way(pool, machine, max(window.count - pool.idle_nodes, 0)) for machine in pool.instance_types]


def _runner_ways(cluster: Cluster, runner: PodRunner, window: Window) -> list[Way]:
    """The nodes that the runners of a window need beyond those of `scale.min`, on every type of every pool of the class."""
    hosts, ways = pool_hosts(cluster), []
    for name in runner.ordered:
        for machine in hosts[name].machines:
            # A class that does not fit is refused elsewhere.
            each = max(fit(runner, machine, hosts[name]).count, 1)
            added = math.ceil(window.count / each) - math.ceil(runner.scale.min / each)
            ways.append(Way(cluster.pools[name], machine.name, added))
    return ways
