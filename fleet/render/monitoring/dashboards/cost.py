"""The dashboard of the cost: USD per hour by repository, runner group, runner class and part, and the plan's forecast."""

from __future__ import annotations

from collections import defaultdict

from fleet.providers.fleet import Fleet
from fleet.render.monitoring.dashboards.panels import Board, Panel, Query
from fleet.settings.runner import PodRunner

_NODES = "(sum(gpu_ci:node_usd_per_hour) or vector(0))"
MEASURED = f"{_NODES} + sum(gpu_ci:shared_usd_per_hour)"
"""USD per hour of the whole cluster. Without any node there is only the shared part."""
_JOBS = "gpu_ci:job_usd_per_hour"
_USD = "currencyUSD"


def board(fleet: Fleet, cluster_name: str) -> Board:
    """The dashboard of one cluster."""
    return Board(uid="gpu-ci-cost", title="cost", panels=(*_parts(), *_jobs(_groups(fleet, cluster_name))))


def _parts() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Cost by part",
            text="USD per hour. Jobs, start and idle add up to the nodes; shared is everything else of the bill.",
            kind="stack",
            unit=_USD,
            queries=(
                ("jobs", f"sum({_JOBS})"),
                ("start", "sum(gpu_ci:start_usd_per_hour)"),
                ("idle", "sum(gpu_ci:idle_usd_per_hour)"),
                ("shared", "sum(gpu_ci:shared_usd_per_hour)"),
            ),
        ),
        Panel(
            title="Plan and measurement",
            text="USD per hour: what the plan forecasts when idle and at worst, and what the nodes cost now.",
            unit=_USD,
            queries=(
                ("measured", MEASURED),
                ("plan, idle", "max(gpu_ci:planned_idle_usd_per_hour)"),
                ("plan, at worst", "max(gpu_ci:planned_worst_usd_per_hour)"),
            ),
        ),
        Panel(
            title="Nodes by pool",
            text="USD per hour of the nodes of each pool.",
            kind="stack",
            unit=_USD,
            queries=(("{{pool}}", "sum by (pool) (gpu_ci:node_usd_per_hour)"),),
        ),
        Panel(
            title="Idle by pool",
            text="USD per hour of the parts of nodes that no pod requested.",
            kind="stack",
            unit=_USD,
            queries=(("{{pool}}", "sum by (pool) (gpu_ci:idle_usd_per_hour)"),),
        ),
        Panel(
            title="Start by runner class",
            text="USD per hour of runners that have no job yet.",
            kind="stack",
            unit=_USD,
            queries=(("{{scale_set}}", "sum by (scale_set) (gpu_ci:start_usd_per_hour)"),),
        ),
    )


def _jobs(groups: tuple[Query, ...]) -> tuple[Panel, ...]:
    return (
        Panel(
            title="Jobs by runner class",
            text="USD per hour of the jobs that run.",
            kind="stack",
            unit=_USD,
            queries=(("{{scale_set}}", f"sum by (scale_set) ({_JOBS})"),),
        ),
        Panel(
            title="Jobs by team",
            text="USD per hour of the jobs that run, by the runner group of their runner class.",
            kind="stack",
            unit=_USD,
            queries=groups,
        ),
        Panel(
            title="Jobs by repository",
            text="USD per hour of the jobs that run.",
            kind="stack",
            unit=_USD,
            queries=(("{{repository}}", f"sum by (repository) ({_JOBS})"),),
        ),
        Panel(
            title="Jobs in the shown time",
            text="USD of each repository and runner class, added up minute by minute.",
            kind="table",
            unit=_USD,
            span=24,
            # A resolution of one minute, whatever the interval of the rule is.
            queries=(("USD", f"sum by (repository, scale_set) (sum_over_time({_JOBS}[$__range:1m])) / 60"),),
        ),
    )


def _groups(fleet: Fleet, cluster_name: str) -> tuple[Query, ...]:
    """A query for each runner group of the cluster. A group says which repositories of the organization may use its runners."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for cluster, name, runner in fleet.runner_sets():
        if cluster == cluster_name and isinstance(runner, PodRunner):
            groups[fleet.group_of(runner)].append(name)
    return tuple((group, f'sum({_JOBS}{{scale_set=~"{"|".join(names)}"}})') for group, names in groups.items())
