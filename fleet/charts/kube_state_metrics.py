"""Values of kube-state-metrics: the labels of nodes, repositories of jobs, times of runners, phases of runner sets.

A job's pod does not know its repository. ARC writes it into the status of the pod's EphemeralRunner when the job starts, and the
EphemeralRunner is deleted after the job (actions-runner-controller, gha-runner-scale-set-0.14.2).
"""

from __future__ import annotations

import re

from fleet.facts.scheduling import CAPACITY_LABEL, CLUSTER_LABEL, INSTANCE_TYPE_LABEL, POOL_LABEL
from fleet.settings.cluster import Cluster

JOB_INFO = "kube_customresource_ephemeralrunner_job_info"
"""The metric with one series for each job that runs: labels `namespace`, `name` (of the EphemeralRunner) and `repository`."""
RUNNER_CREATED = "kube_customresource_ephemeralrunner_created"
"""When ARC created each EphemeralRunner, in seconds since 1970: labels `namespace` and `pod`. Its pod has the same name."""
JOB_STARTED = "kube_customresource_ephemeralrunner_job_started"
"""When a runner took its job, in seconds since 1970: labels as `RUNNER_CREATED`, and no series before."""
SET_INFO = "kube_customresource_autoscalingrunnerset_info"
"""The metric with one series for each runner set: labels `namespace`, `name` and `phase` (Pending, Running or Outdated)."""


def node_labels(cluster: Cluster) -> tuple[str, ...]:
    """The node labels that `kube_node_labels` must have: those of the program, and those by which described pools are known."""
    selectors = (key for name, pool in cluster.pools.items() for key in pool.node_selector(name))
    return tuple(dict.fromkeys((CLUSTER_LABEL, POOL_LABEL, CAPACITY_LABEL, INSTANCE_TYPE_LABEL, *selectors)))


def sanitized(name: str) -> str:
    """The name of a label or resource as kube-state-metrics writes it (internal/store/utils.go, SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
