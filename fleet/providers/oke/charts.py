"""The charts that only OKE clusters have."""

from __future__ import annotations

from fleet.charts.chart import Chart
from fleet.providers.oke.cluster import OkePools
from fleet.providers.oke.machine_set import machine_chart, machine_set_of
from fleet.settings.github import GitHub


def oke_charts(cluster: OkePools, physical_name: str, github: GitHub) -> tuple[Chart, ...]:
    """The runner sets whose runners are machines. ARC starts a launcher for each machine."""
    return tuple(
        machine_chart(machine_set_of(cluster, physical_name, name, runner, github)) for name, runner in cluster.machine_runners()
    )
