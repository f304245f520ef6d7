"""The charts that only OKE clusters have."""

from __future__ import annotations

from fleet.charts.chart import Chart
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.launcher_set import launcher_set
from fleet.settings.github import GitHub


def oke_charts(settings: OkePools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """The runner sets whose runners are machines. ARC starts a launcher for each machine."""
    return tuple(
        launcher_set(
            name, runner, github.url, runner.group or github.group, region=settings.region, compartment=settings.machines_in
        )
        for name, runner in settings.machine_runners()
    )
