"""Thresholds of the alerts that the fleet's rules raise."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.settings.model import Duration, Model

Share = Annotated[float, Field(gt=0, le=1)]
"""A part of the whole, such as 0.05 for 5 %."""


class Alerts(Model):
    """Thresholds of alerts. The defaults are this project's choice."""

    queue_objective: Duration = 600
    """Seconds within which a job starts, unless `objectives` has its runner class."""
    objectives: dict[str, Duration] = Field(default_factory=dict)
    """The objective of a runner class, by the name of its set."""
    idle_below: Share = 0.05
    """A GPU below this utilization is idle."""
    idle_for: Duration = 1800
    """Seconds for which an allocated GPU may be idle."""
    temperature: Annotated[int, Field(ge=40, le=110)] = 85
    """Degrees Celsius of a hot GPU."""
    runner_lifetime: Duration = 86400
    """Seconds after which a runner is too old."""
    reservation_notice: Duration = 259200
    """Seconds before the end of a reservation at which its alert fires."""
