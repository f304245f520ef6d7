"""The dashboard of the cost: USD per hour by part, pool, runner class, team and repository, and the plan's forecast."""

from __future__ import annotations

from fleet.render.monitoring.dashboards.panels import Board, Panel, stack, table

USD = "currencyUSD"
MEASURED = "(sum(gpu_ci:node_usd_per_hour) or vector(0)) + sum(gpu_ci:shared_usd_per_hour)"
"""USD per hour of the whole cluster. Without any node there is only the shared part."""
_JOBS = "gpu_ci:job_usd_per_hour"


def _usd(title: str, text: str, queries: dict[str, str], span: int = 12) -> Panel:
    return stack(title, f"USD per hour {text}", queries, USD, span)


_PANELS = (
    _usd(
        "Cost by part",
        "of jobs, start and idle, which add up to the nodes, and of everything else of the bill.",
        {"jobs": f"sum({_JOBS})"} | {part: f"sum(gpu_ci:{part}_usd_per_hour)" for part in ("start", "idle", "shared")},
    ),
    Panel(
        "Plan and measurement",
        "USD per hour that the plan forecasts when idle and at worst, and the measured cost now.",
        {"measured": MEASURED} | {f"plan, {case}": f"max(gpu_ci:planned_{case}_usd_per_hour)" for case in ("idle", "worst")},
        USD,
    ),
    _usd("Nodes by pool", "of the nodes of each pool.", {"{{pool}}": "sum by (pool) (gpu_ci:node_usd_per_hour)"}, 8),
    _usd("Idle by pool", "of what no pod requested.", {"{{pool}}": "sum by (pool) (gpu_ci:idle_usd_per_hour)"}, 8),
    _usd(
        "Start by runner class",
        "of runners that have no job yet.",
        {"{{scale_set}}": "sum by (scale_set) (gpu_ci:start_usd_per_hour)"},
        8,
    ),
    _usd("Jobs by runner class", "of running jobs.", {"{{scale_set}}": f'sum by (scale_set) ({_JOBS}{{scale_set!=""}})'}, 8),
    _usd(
        "Jobs by team",
        "of running jobs, by the runner group of their class or the namespaces of the team's queue.",
        {"{{team}}": "sum by (team) (gpu_ci:team_usd_per_hour)"},
        8,
    ),
    _usd("Jobs by repository", "of running jobs.", {"{{repository}}": f'sum by (repository) ({_JOBS}{{repository!=""}})'}, 8),
    table(
        "Jobs in the shown time",
        "USD of each repository and runner class, and of each other namespace, added up minute by minute.",
        # A resolution of one minute, whatever the interval of the rule is.
        {"USD": f"sum by (namespace, repository, scale_set) (sum_over_time({_JOBS}[$__range:1m])) / 60"},
        USD,
    ),
)
BOARD = Board("gpu-ci-cost", "cost", _PANELS)
"""It is the same for each cluster."""
