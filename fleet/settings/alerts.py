"""Thresholds of the alerts that the fleet's rules raise."""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field

from fleet.settings.model import Duration, Memory, Model
from fleet.settings.refusals import between, problem

Share = Annotated[float, Field(gt=0, le=1)]
"""A part of the whole, such as 0.05 for 5 %."""


# The last bucket of gha_job_startup_duration_seconds is 3600 s, so a quantile is never greater (`facts/data/metrics.csv`).
Objective = Annotated[Duration, between("objective", 60, 3599)]
Time = Annotated[Duration, between("alert_time", 60)]


class Alerts(Model):
    """Thresholds of alerts. The defaults are this project's choice."""

    queue_objective: Objective = 600
    """Time within which a job starts, from 1m to 59m, unless `objectives` has its runner set. Example: `5m`"""
    objectives: dict[str, Objective] = Field(default_factory=dict)
    """Time within which a job of a runner set starts, by the name of the set."""
    pending_for: Time = 1200
    """Time that a pod with a GPU may wait before its alert. The autoscaler gives up on a node after 20 minutes. Example: `30m`"""
    idle_below: Share = 0.05
    """Utilization below which a GPU is idle. Unit: share of 1. Example: `0.1`"""
    idle_for: Time = 1800
    """Time that an allocated GPU may be idle before its alert. Example: `1h`"""
    memory_floor: Memory = 1024
    """GPU memory that may be in use without utilization. Example: `2Gi`"""
    temperature: Annotated[int, Field(ge=40, le=110)] = 85
    """Temperature at which a GPU is hot. Unit: degrees Celsius. Example: `80`"""
    rejected_pods: Annotated[int, Field(ge=1)] = 3
    """Pods that a Ready node may reject within 15 minutes before its alert. Unit: pods. Example: `5`"""
    runner_lifetime: Time = 86400
    """Age at which a runner is too old. Example: `12h`"""
    reservation_notice: Time = 259200
    """Time before the end of a reservation at which its alert fires. Example: `48h`"""

    def objective(self, runner_set: str) -> int:
        """Seconds within which a job of a runner set starts."""
        return self.objectives.get(runner_set, self.queue_objective)


def require_objectives(alerts: Alerts, sets: Collection[str], *, at: tuple[str, ...]) -> None:
    """Refuse an objective of a runner set that the cluster does not have. Raises a settings problem."""
    for name in alerts.objectives:
        if name not in sets:
            choices = f"name one of: {', '.join(sets)}" if sets else "remove it, because the cluster has none"
            raise problem("objective_set", at=(*at, name), choices=choices)
