"""The dashboard of the fleet: how long jobs wait and runners take to start, what runs, what is pending and what it costs now."""

from __future__ import annotations

from fleet.render.monitoring.dashboards.cost import MEASURED, USD
from fleet.render.monitoring.dashboards.panels import Board, Panel, number, stack
from fleet.render.monitoring.rules.rule import by_value
from fleet.render.monitoring.rules.starts import PHASE
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_WAIT = (
    "From the assignment of a job to its runner set until a runner has it. A job is counted when it starts: jobs that never "
    "start are only in Jobs waiting."
)
_NOW = (
    number("Jobs waiting", "Jobs of all runner classes that no runner has started.", {"jobs": "sum(gpu_ci:jobs_waiting)"}),
    number("Jobs running", "Jobs of all runner classes that run now.", {"jobs": "sum(gpu_ci:jobs_running)"}),
    number("GPU nodes", "Nodes of all GPU pools.", {"nodes": "count(gpu_ci:node_pool) or vector(0)"}),
    number("Cost now", "USD per hour of the nodes and of everything else of the bill.", {"USD per hour": MEASURED}, USD),
)
_PODS = (
    Panel(
        "Pending pods by namespace",
        "Pods without a node, and pods whose containers have not started.",
        {"{{namespace}}": 'sum by (namespace) (kube_pod_status_phase{phase="Pending"})'},
        span=8,
    ),
    Panel(
        "Waiting containers by reason",
        "Why containers of scheduled pods have not started. Why a pod has no node is only in its events.",
        {"{{reason}}": "sum by (reason) (kube_pod_container_status_waiting_reason)"},
        span=8,
    ),
    stack("Nodes by pool", "Nodes of each GPU pool.", {"{{pool}}": "count by (pool) (gpu_ci:node_pool)"}, span=8),
)
_HOUR = "of the runners that existed in the last hour"
_STARTS = (
    Panel(
        "Start time by phase, p50",
        f"Seconds of each phase {_HOUR}. The phases of one runner class follow one another.",
        {"{{scale_set}} {{phase}}": f'{PHASE}:p50{{phase!="total"}}'},
        "s",
        8,
    ),
    Panel(
        "Start time by runner class",
        f"From the creation of a runner until it took its job, {_HOUR}. A class with a minimum has none: its runners wait.",
        {f"{quantile} {{{{scale_set}}}}": f'{PHASE}:{quantile}{{phase="total"}}' for quantile in ("p50", "p95")},
        "s",
        8,
    ),
    Panel(
        "Starts that waited for a node",
        f"The share {_HOUR} whose node is younger than their pod.",
        {"{{scale_set}}": 'sum by (scale_set) (gpu_ci:starts{node="new"}) / sum by (scale_set) (gpu_ci:starts)'},
        "percentunit",
        8,
    ),
)
_QUEUES = (
    Panel(
        "Pending workloads by queue",
        "GPU Jobs of teams that Kueue has not admitted.",
        {"{{cluster_queue}} {{status}}": "sum by (cluster_queue, status) (kueue_pending_workloads)"},
    ),
    Panel(
        "Admitted workloads by queue",
        "GPU Jobs of teams that Kueue has admitted and that have not finished.",
        {"{{cluster_queue}}": "sum by (cluster_queue) (kueue_admitted_active_workloads)"},
    ),
)


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The objectives of the queue time are those of its alerts."""
    queues = _QUEUES if cluster.queues is not None else ()
    return Board("gpu-ci-fleet", "fleet", (*_NOW, *_classes(_shares(cluster, alerts)), *_STARTS, *_PODS, *queues))


def _classes(shares: str) -> tuple[Panel, ...]:
    waiting, running = (f"sum by (scale_set) (gpu_ci:jobs_{state})" for state in ("waiting", "running"))
    return (
        Panel(
            "Queue time by runner class",
            _WAIT,
            {"p50 {{scale_set}}": "gpu_ci:queue_seconds:p50", "p95 {{scale_set}}": "gpu_ci:queue_seconds:p95"},
            "s",
        ),
        Panel(
            "Queue time p95 as a share of the objective",
            "Above 100 %, one job of twenty waits longer than the objective of its runner class.",
            {"{{scale_set}}": shares} if shares else {},
            "percentunit",
            limit=1,
        ),
        Panel("Jobs waiting by runner class", "Jobs that no runner has started.", {"{{scale_set}}": waiting}, span=8),
        Panel("Jobs running by runner class", "Jobs that run now.", {"{{scale_set}}": running}, span=8),
        Panel(
            "Runners as a share of the maximum",
            "At 100 % the runner set starts no further runner, and jobs wait.",
            {"{{scale_set}}": "max by (scale_set) (gha_desired_runners / gha_max_runners)"},
            "percentunit",
            span=8,
            limit=1,
        ),
    )


def _shares(cluster: Cluster, alerts: Alerts) -> str:
    """The p95 of each runner class by its objective."""
    objectives = by_value({name: alerts.objective(name) for name in cluster.runners})
    return " or ".join(f'gpu_ci:queue_seconds:p95{{scale_set=~"{names}"}} / {seconds}' for seconds, names in objectives.items())
