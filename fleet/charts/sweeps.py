"""Sweeps: small programs that watch a cluster's objects and repair them.

They are not a chart, but their pods need room too.
"""

from collections.abc import Iterator

from fleet.charts.chart import Pod
from fleet.settings.cluster import Cluster

NAMESPACE = "gpu-sweeps"
"""Only sweeps run there."""
REAPER = Pod("runner-reaper", 20, 96)
"""Deletes EphemeralRunners that hang or whose node is going away."""
SCHEDULER = Pod("runner-scheduler", 20, 96)
"""Sets the runners that wait by the schedules of their class."""

QUARANTINE = Pod("gpu-quarantine", 20, 96)
"""Quarantines sick GPU nodes, and opens their startup gate."""


def sweep_pods(cluster: Cluster) -> Iterator[Pod]:
    """The sweeps of a cluster, each one pod on the system pool."""
    if cluster.pod_runners:
        yield REAPER
    if any(runner.schedules for runner in cluster.pod_runners.values()):
        yield SCHEDULER
    if cluster.health is not None and cluster.gpu_pools:
        yield QUARANTINE
