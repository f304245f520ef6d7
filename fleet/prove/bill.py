"""The bill of a fleet: one line for each thing that is paid by the hour, and the pods that run while no job does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts import bill as counting
from fleet.facts import hardware
from fleet.facts.pricing import Line, Money, average, quoted, span, units
from fleet.facts.remark import costs
from fleet.prove.placement import Placement, per_node, pool_hosts
from fleet.prove.room import fits, standing
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.budget import MONTH
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner


def bill(fleet: Fleet, day: date) -> tuple[Line, ...]:
    """The lines of all clusters, at the prices of a day. Of each cluster, GPU pools and machines come before other charges."""
    return tuple(line for name, cluster in fleet.clusters_by_name() for line in lines(name, cluster, day))


def lines(name: str, cluster: Cluster, day: date) -> Iterator[Line]:
    """The lines of one cluster."""
    parts = tuple(PROVIDERS[cluster.provider].bill(name, cluster, day))
    paid = [part for part in parts if isinstance(part, counting.Paid)]
    yield from counting.bill(paid, list(waiting(name, cluster)))
    yield from (part for part in parts if isinstance(part, Line))
    if minutes := 60 * sum(runner.span.max for runner in cluster.runners.values()):
        what = "minutes of self-hosted runners, which GitHub does not charge yet"
        yield units(name, "GitHub", what, "github-runner-minute", cluster.region, 0, minutes)


def remarks(fleet: Fleet, day: date) -> Iterator[str]:
    """Warnings about budgets that are lower than what their clusters cost without jobs. An unknown price counts as 0 here."""
    for name, cluster in fleet.clusters_by_name():
        if cluster.budget is None:
            continue
        watched = [
            line
            for other, found in fleet.clusters_by_name()
            if (found.provider, found.watched) == (cluster.provider, cluster.watched)
            for line in lines(other, found, day)
        ]
        if (month := average(watched).usd * MONTH) > cluster.budget.monthly_usd:
            yield costs(
                f"{name}: budget: without jobs, {month:.0f} USD a month are spent on {cluster.watched}, and monthlyUsd is "
                f"{cluster.budget.monthly_usd}; raise monthlyUsd, or the alarm is sent every month",
                act=True,
            )


def runner_hour(placement: Placement, region: str) -> tuple[Money, Money]:
    """(least, most) USD of one runner-hour: the price of a full machine, shared by the runners that it holds.

    The range covers every type that may be bought. A reserved machine costs the same whether it is full or not.
    """
    return span(
        quoted(hardware.price_of(fit.machine, region, placement.host.capacity)).times(1 / fit.count)
        for fit in placement.fits
        if fit.count
    )


def _waits(runner: PodRunner) -> bool:
    return bool(runner.scale.min) or runner.schedules is not None


def waiting_per_node(cluster: Cluster, runner: PodRunner) -> int:
    """How many runners that wait a node holds; 1 for a class of which none ever waits."""
    hosts = pool_hosts(cluster) if _waits(runner) else {}
    return per_node(runner, map(hosts.__getitem__, runner.ordered)) if hosts else 1


def waiting(name: str, cluster: Cluster) -> Iterator[counting.Waiting]:
    """What always runs in the pools of a cluster, whose name is `name`."""
    hosts = pool_hosts(cluster) if cluster.pools else {}
    for runner in cluster.pod_runners.values():
        if _waits(runner):
            windows = runner.schedules.kept if runner.schedules is not None else ()
            count = per_node(runner, map(hosts.__getitem__, runner.ordered))
            yield counting.Waiting(cluster=name, pools=runner.ordered, least=runner.scale.min, per_node=count, windows=windows)
    for pool_name, pool in cluster.pools.items():
        if pool.placeholders:
            yield counting.Waiting(cluster=name, pools=(pool_name,), least=pool.placeholders)
        for _, workload in standing(cluster, pool_name):
            yield counting.Waiting(cluster=name, pools=(pool_name,), least=1, per_node=fits(cluster, workload))
