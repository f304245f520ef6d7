"""The bill of a fleet: one line for each thing that is paid by the hour, the pods that run while no job does, and windows.

A window of a schedule has its price for one week.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from fleet.charts.container_jobs import own_runner
from fleet.facts import bill as counting, hardware
from fleet.facts.pricing import Line, Money, average, quoted, span, units
from fleet.facts.record import Record
from fleet.facts.remark import costs, said
from fleet.prove.placement import Fit, Host, Placement, fit, per_node, pool_hosts
from fleet.prove.pod import PodAsk
from fleet.prove.room import fits, standing
from fleet.prove.runner_pods import runner_ask
from fleet.providers.fleet import Fleet
from fleet.providers.installed import cpu_part
from fleet.providers.registry import PROVIDERS
from fleet.settings.budget import MONTH, Budget
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner, Runner, RunnerPod
from fleet.settings.schedules import Schedules, Window


def bill(fleet: Fleet, day: date) -> tuple[Line, ...]:
    """The lines of all clusters, at the prices of a day. Of each cluster, GPU pools and machines come before other charges."""
    return tuple(line for name, cluster in fleet.clusters_by_name() for line in lines(name, cluster, day))


def lines(name: str, cluster: Cluster, day: date) -> Iterator[Line]:
    """The lines of one cluster."""
    parts = tuple(PROVIDERS[cluster.provider].bill(name, cluster, day))
    yield from counting.bill([part for part in parts if isinstance(part, counting.Paid)], list(waiting(name, cluster)))
    yield from (part for part in parts if isinstance(part, Line))
    if minutes := 60 * sum(runner.span.max for runner in cluster.runners.values()):
        what = "minutes of self-hosted runners, which GitHub does not charge yet"
        yield units(name, "GitHub", what, "github-runner-minute", cluster.region, 0, minutes)


def remarks(fleet: Fleet, day: date) -> Iterator[str]:
    """Warnings about budgets that are lower than what they count costs without jobs. An unknown price counts as 0 here."""
    for name, cluster in fleet.clusters_by_name():
        for key, budget in cluster.budgets_of_pools.items():
            items = {f"pool {pool}" for pool in budget.pools}
            watched = [line for line in lines(name, cluster, day) if line.item in items]
            yield from _low(f"{name}: poolBudgets.{key}", budget, watched, f"its pools {', '.join(budget.pools)}")
        if cluster.budget is None:
            continue
        watched = [
            line
            for other, found in fleet.clusters_by_name()
            if (found.provider, found.watched) == (cluster.provider, cluster.watched)
            for line in lines(other, found, day)
        ]
        yield from _low(f"{name}: budget", cluster.budget, watched, cluster.watched)


def _low(what: str, budget: Budget, watched: Iterable[Line], counted: str) -> Iterator[str]:
    """The warning about a budget that is lower than the cost of these lines without jobs."""
    if (month := average(watched).usd * MONTH) > budget.monthly_usd:
        yield costs(said("low_budget", what=what, month=month, counted=counted, budget=budget), act=True)


def runner_hour(placement: Placement, region: str) -> tuple[Money, Money]:
    """(least, most) USD of one runner-hour: the price of a full machine, shared by the runners that it holds.

    A runner without GPUs pays for its part of the CPUs, as its jobs and the metrics count it. The range covers every type that
    may be bought. A reserved machine costs the same whether it is full or not.
    """
    rows = [row for row in placement.fits if row.count]
    prices = (quoted(hardware.price_of(row.machine, region, placement.host.capacity)) for row in rows)
    return span(price.times(_part(placement.runner, row)) for price, row in zip(prices, rows, strict=True))


def _part(runner: Runner, row: Fit) -> float:
    """The part of a machine that one runner pays."""
    return cpu_part(runner, row.machine) if isinstance(runner, PodRunner) and not runner.gpus else 1 / row.count


def _waits(runner: PodRunner) -> bool:
    return bool(runner.scale.min) or runner.schedules is not None


def waiting_per_node(cluster: Cluster, runner: PodRunner) -> int:
    """How many runners that wait a node holds; 1 for a class of which none ever waits."""
    if not _waits(runner) or not runner.waiting_pools:
        return 1
    return per_node(_waiter(runner), pool_hosts(cluster, *runner.waiting_pools).values())


def _waiter(runner: PodRunner) -> RunnerPod | PodAsk:
    """What a runner that waits reserves: its job's pod, or its own if jobs run in containers."""
    return own_runner(runner) if runner.in_containers else runner_ask(runner)


def waiting(name: str, cluster: Cluster) -> Iterator[counting.Waiting]:
    """What always runs in the pools of a cluster, whose name is `name`."""
    for runner in cluster.pod_runners.values():
        # The nodes of the system pool always run.
        if _waits(runner) and runner.waiting_pools:
            windows = runner.schedules.kept if runner.schedules is not None else ()
            count = waiting_per_node(cluster, runner)
            yield counting.Waiting(
                cluster=name, pools=runner.waiting_pools, least=runner.scale.min, per_node=count, windows=windows
            )
    for pool_name, pool in cluster.pools.items():
        if pool.placeholders:
            yield counting.Waiting(cluster=name, pools=(pool_name,), least=pool.placeholders)
        for _, workload in standing(cluster, pool_name):
            yield counting.Waiting(cluster=name, pools=(pool_name,), least=1, per_node=fits(cluster, workload))


# -- schedules ---------------------------------------------------------------------------------------------------------

Way = tuple[Pool, str, int]
"""A pool, one of its machine types, and the nodes that a window adds if they are of that type."""


class Week(Record):
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
        for owner, schedules, key, window, ways in _windows(cluster):
            hours = sum(choice.hours for choice in schedules.openings(first) if choice.window == key)
            prices = (pool.price(machine, cluster.region).times(added * hours) for pool, machine, added in ways)
            more_nodes = [added for _, _, added in ways]
            keeps = f"{window.count} {window.KEY if window.count > 1 else window.KEY.removesuffix('s')}"
            opens = f"{window} {schedules.time_zone}"
            yield Week(f"{name}/{owner}/{key}", opens, keeps, hours, (min(more_nodes), max(more_nodes)), span(prices))


def _windows(cluster: Cluster) -> Iterator[tuple[str, Schedules, str, Window, list[Way]]]:
    """Each window of the schedules of pools and runner sets: its owner, its name, and what it adds."""
    for name, pool in cluster.pools.items():
        if (of_pool := pool.schedules) is not None:
            for key, nodes in of_pool.windows.items():
                added = max(nodes.count - pool.idle_nodes, 0)
                yield f"pool {name}", of_pool, key, nodes, [(pool, machine, added) for machine in pool.instance_types]
    for name, runner in cluster.pod_runners.items():
        if (of_runner := runner.schedules) is not None:
            hosts = pool_hosts(cluster, *runner.waiting_pools) if runner.waiting_pools else {}
            for key, runners in of_runner.windows.items():
                yield name, of_runner, key, runners, list(_runner_ways(cluster, hosts, runner, runners))


def _runner_ways(cluster: Cluster, hosts: Mapping[str, Host], runner: PodRunner, window: Window) -> Iterator[Way]:
    """The nodes that the runners of a window need beyond those of `scale.min`, on every type of every pool of the class.

    Pools whose number of nodes never changes, such as reservations, add none.
    """
    for name, host in hosts.items():
        pool = cluster.pools[name]
        least, most = pool.paid_nodes
        for machine in host.machines:
            # A class that does not fit is refused elsewhere.
            per_node = max(fit(_waiter(runner), machine, host).count, 1)
            more_nodes = math.ceil(window.count / per_node) - math.ceil(runner.scale.min / per_node)
            yield pool, machine.name, more_nodes if least < most else 0
