"""The dashboard of the cost: USD per hour by part, pool, runner class, team and repository, and the plan's forecast."""

from __future__ import annotations

from fleet.render.monitoring.dashboards.panels import Board, panels

BOARD = Board("gpu-ci-cost", "cost", panels("cost.toml"))
"""It is the same for each cluster."""
