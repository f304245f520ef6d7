"""The runner sets of a cluster as the charts that deliver them."""

from __future__ import annotations

from typing import Any

from fleet.charts import Chart
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set
from fleet.providers.oke.launcher_set import launcher_set
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.runner import PodRunner, Runner


def set_charts(fleet: Fleet, cluster: str) -> dict[str, Chart]:
    """The scale set of each runner set, by the set's name; a test holds them to what the program declares."""
    return {
        name: _chart(fleet, fleet.clusters[cluster], name, runner) for at, name, runner in fleet.runner_sets() if at == cluster
    }


def _chart(fleet: Fleet, settings: Any, name: str, runner: Runner) -> Chart:
    if isinstance(runner, PodRunner):
        return pod_set(settings, name, runner, fleet.github)
    if isinstance(runner, MachineRunner):
        url, group = fleet.github.url, fleet.group_of(runner)
        return launcher_set(name, runner, url, group, region=settings.region, compartment=settings.machines_in)
    raise TypeError(f"{name}: no chart is known for runners of kind {runner.kind}; add it here")
