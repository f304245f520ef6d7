"""What schedules keep and cost: exactly in one week, and on average in the bill."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from fleet.facts.hardware import Machine
from fleet.facts.pricing import Line, Money, nodes, span
from fleet.prove.placement import fit, pool_hosts
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner
from fleet.settings.schedules import WEEK_HOURS, Schedules


@dataclass(frozen=True, slots=True)
class Week:
    """A window in the seven local days from a day. `nodes` are those that it adds, and `usd` what they cost (lowest, highest)."""

    cluster: str
    owner: str
    window: str
    opens: str
    hours: float
    keeps: str
    nodes: tuple[int, int]
    usd: tuple[Money, Money]


def weeks(fleet: Fleet, first: date) -> Iterator[Week]:
    """Every window of a fleet in the week that starts on a day: holidays left out, and clocks as they really change."""
    for name, cluster in fleet.clusters_by_name():
        for pool_name, pool in cluster.pools.items():
            if (held := pool.schedules) is not None:
                counts = {key: max(each.nodes - pool.idle_nodes, 0) for key, each in held.windows.items()}
                ways = [(pool.price(machine.name, cluster.region), 1.0) for machine in pool.machines]
                yield from _weeks(name, f"pool {pool_name}", held, first, {key: [(count, usd) for usd, _ in ways] for key, count in counts.items()})
        for set_name, runner in cluster.runners.items():
            if isinstance(runner, PodRunner) and (waiting := runner.schedules) is not None:
                ways = {
                    key: [(count, cluster.pools[pool].price(machine.name, cluster.region)) for pool, machine, count in _nodes(cluster, runner, each.runners)]
                    for key, each in waiting.windows.items()
                }
                yield from _weeks(name, f"runner set {set_name}", waiting, first, ways)
