"""The charts of runner sets of a cluster, whoever delivers them."""

from __future__ import annotations

from fleet.charts import Chart, runner_set
from fleet.providers.target import pool_target
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner


def pod_set(cluster: Cluster, name: str, runner: PodRunner, github_url: str, group: str) -> Chart:
    """The scale set of a runner class whose runners are pods, bound to its pool."""
    target = pool_target(cluster, runner.pool)
    return runner_set(
        name,
        runner,
        github_url,
        group,
        tolerations=target.tolerations,
        runtime_class=target.runtime_class,
        resource=target.resource,
        mounts_shm=target.mounts_shm,
    )
