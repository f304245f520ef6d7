"""The dashboard of the fleet: how long jobs wait, what runs, what is pending and what it costs now."""

from __future__ import annotations

from collections import defaultdict

from fleet.facts.scheduling import SYSTEM_POOL
from fleet.render.monitoring.dashboards.cost import MEASURED
from fleet.render.monitoring.dashboards.panels import Board, Panel, Query
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner

_GPU_NODES = f'kube_node_labels{{label_gpu_ci_pool!~"|{SYSTEM_POOL}"}}'
_WAIT = (
    "GitHub assigned the job to the runner set, and then a runner started it. A job is counted when it starts: jobs that never "
    "start are only in Jobs waiting."
)


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The objectives of the queue time are those of its alerts."""
    queues = cluster.queues is not None
    return Board(uid="gpu-ci-fleet", title="fleet", panels=(*_now(), *_classes(cluster, alerts), *_pods(), *_queues() * queues))


def _now() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Jobs waiting",
            text="Jobs of all runner classes that no runner has started.",
            kind="number",
            span=6,
            queries=(("jobs", "sum(gpu_ci:jobs_waiting)"),),
        ),
        Panel(
            title="Jobs running",
            text="Jobs of all runner classes that run now.",
            kind="number",
            span=6,
            queries=(("jobs", "sum(gpu_ci:jobs_running)"),),
        ),
        Panel(
            title="GPU nodes",
            text="Nodes of all GPU pools.",
            kind="number",
            span=6,
            queries=(("nodes", f"count({_GPU_NODES}) or vector(0)"),),
        ),
        Panel(
            title="Cost now",
            text="USD per hour of all nodes and of what the cluster shares, by the price rows of the plan.",
            kind="number",
            unit="currencyUSD",
            span=6,
            queries=(("USD per hour", MEASURED),),
        ),
    )


def _classes(cluster: Cluster, alerts: Alerts) -> tuple[Panel, ...]:
    return (
        Panel(
            title="Queue time by runner class",
            text=_WAIT,
            unit="s",
            queries=(("p50 {{scale_set}}", "gpu_ci:queue_seconds:p50"), ("p95 {{scale_set}}", "gpu_ci:queue_seconds:p95")),
        ),
        Panel(
            title="Queue time p95 as a share of the objective",
            text="Above 1, one job of twenty waits longer than the objective of its runner class.",
            unit="percentunit",
            limit=1,
            queries=_against_objectives(cluster, alerts),
        ),
        Panel(
            title="Jobs waiting by runner class",
            text="Jobs that the runner set has and no runner has started.",
            span=8,
            queries=(("{{scale_set}}", "sum by (scale_set) (gpu_ci:jobs_waiting)"),),
        ),
        Panel(
            title="Jobs running by runner class",
            text="Jobs that run now.",
            span=8,
            queries=(("{{scale_set}}", "sum by (scale_set) (gpu_ci:jobs_running)"),),
        ),
        Panel(
            title="Runners as a share of the maximum",
            text="At 1 the runner set starts no further runner, and jobs wait.",
            unit="percentunit",
            limit=1,
            span=8,
            queries=(("{{scale_set}}", "max by (scale_set) (gha_desired_runners / gha_max_runners)"),),
        ),
    )


def _against_objectives(cluster: Cluster, alerts: Alerts) -> tuple[Query, ...]:
    """A query for each objective, with the runner classes that have it. Machines outside the cluster have no listener."""
    classes: defaultdict[int, list[str]] = defaultdict(list)
    for name, runner in cluster.runners.items():
        if isinstance(runner, PodRunner):
            classes[alerts.objectives.get(name, alerts.queue_objective)].append(name)
    return tuple(
        ("{{scale_set}}", f'gpu_ci:queue_seconds:p95{{scale_set=~"{"|".join(names)}"}} / {seconds}')
        for seconds, names in classes.items()
    )


def _pods() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Pending pods by namespace",
            text="Pods without a node, and pods whose containers have not started.",
            span=8,
            queries=(("{{namespace}}", 'sum by (namespace) (kube_pod_status_phase{phase="Pending"})'),),
        ),
        Panel(
            title="Waiting containers by reason",
            text="Why containers of scheduled pods have not started. Why a pod has no node is only in its events.",
            span=8,
            queries=(("{{reason}}", "sum by (reason) (kube_pod_container_status_waiting_reason)"),),
        ),
        Panel(
            title="Nodes by pool",
            text="Nodes of each GPU pool.",
            kind="stack",
            span=8,
            queries=(("{{label_gpu_ci_pool}}", f"count by (label_gpu_ci_pool) ({_GPU_NODES})"),),
        ),
    )


def _queues() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Pending workloads by queue",
            text="GPU Jobs of teams that Kueue has not admitted.",
            queries=(("{{cluster_queue}} {{status}}", "sum by (cluster_queue, status) (kueue_pending_workloads)"),),
        ),
        Panel(
            title="Admitted workloads by queue",
            text="GPU Jobs of teams that Kueue has admitted and that have not finished.",
            queries=(("{{cluster_queue}}", "sum by (cluster_queue) (kueue_admitted_active_workloads)"),),
        ),
    )
