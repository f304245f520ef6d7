"""Sweeps: small programs that repair a cluster's objects every few seconds. They are no chart, but their pods need room too."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.chart import Pod
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner

NAMESPACE = "gpu-sweeps"
"""Only sweeps run there."""
REAPER = Pod("runner-reaper", 20, 96)
"""Deletes EphemeralRunners that hang or whose node is going away."""

QUARANTINE = Pod("gpu-quarantine", 20, 96)
"""Quarantines sick GPU nodes, and opens their startup gate."""


def sweep_pods(cluster: Cluster) -> Iterator[Pod]:
    """The sweeps of a cluster, each one pod on the system pool."""
    if any(isinstance(runner, PodRunner) for runner in cluster.runners.values()):
        yield REAPER
    if cluster.health is not None and cluster.pools:
        yield QUARANTINE
