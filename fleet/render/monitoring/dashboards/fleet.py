"""The dashboard of the fleet: how long jobs wait and runners take to start, what runs, what is pending and what it costs now."""

from __future__ import annotations

from typing import Any

from fleet.render.monitoring.dashboards.panels import Board, panels
from fleet.render.monitoring.rules.rule import by_value
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_OF_QUEUES = ("Pending workloads by queue", "Admitted workloads by queue")


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The objectives of the queue time are those of its alerts."""
    shares = {"{{scale_set}}": text} if (text := _shares(cluster, alerts)) else {}
    changes: dict[str, dict[str, Any]] = {"Queue time p95 as a share of the objective": {"queries": shares}}
    if cluster.queues is None:
        changes |= {title: {"queries": {}} for title in _OF_QUEUES}
    return Board("gpu-ci-fleet", "fleet", panels("fleet.toml", changes))


def _shares(cluster: Cluster, alerts: Alerts) -> str:
    """The p95 of each runner class by its objective."""
    objectives = by_value({name: alerts.objective(name) for name in cluster.runners})
    return " or ".join(f'gpu_ci:queue_seconds:p95{{scale_set=~"{names}"}} / {seconds}' for seconds, names in objectives.items())
