"""Values of kube-state-metrics: the labels of nodes, repositories of jobs, times of runners, phases of runner sets.

A job's pod does not know its repository. ARC writes it into the status of the pod's EphemeralRunner when the job starts, and the
EphemeralRunner is deleted after the job (actions-runner-controller, gha-runner-scale-set-0.14.2).
"""

from __future__ import annotations

import re
from typing import Any

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
_LISTENER = "ghalistener"
"""The field manager of ARC's listener, which is the name of its program. It writes an EphemeralRunner once, with the job."""
_PREFIX = "kube_customresource"
_GROUP = "actions.github.com"


def job_state() -> dict[str, Any]:
    """The values of kube-state-metrics' chart that add the metrics above, with the rights that they need.

    They have no label of the job, the branch or the workflow, because their values are unbounded. Each has as many series as
    runners or sets exist. Source: kube-state-metrics 2.20.0, customresourcestate-metrics.md; chart 8.4.0.
    """
    # A runner without a job has no repository, and therefore no series.
    job = _info(JOB_INFO, "The repository of the job that a runner runs.", "repository", "jobRepositoryName")
    times = (
        _time(RUNNER_CREATED, "When the runner was created.", "creationTimestamp"),
        # No status has the time at which a job starts. The API server notes when each program last wrote an object.
        _time(JOB_STARTED, "When the runner took its job.", "managedFields", f"[manager={_LISTENER}]", "time"),
    )
    phase = _info(SET_INFO, "The phase of a runner set.", "phase", "phase")
    resources = [_resource("EphemeralRunner", job, *times), _resource("AutoscalingRunnerSet", phase)]
    return {
        "customResourceState": {
            "enabled": True,
            "config": {"kind": "CustomResourceStateMetrics", "spec": {"resources": resources}},
        },
        "rbac": {
            "extraRules": [
                {"apiGroups": [_GROUP], "resources": ["ephemeralrunners", "autoscalingrunnersets"], "verbs": ["list", "watch"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
            ]
        },
    }


def _resource(kind: str, *metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics of one kind of ARC's objects."""
    version = {"group": _GROUP, "version": "v1alpha1", "kind": kind}
    return {"groupVersionKind": version, "metricNamePrefix": _PREFIX, "metrics": list(metrics)}


def _info(name: str, text: str, label: str, field: str) -> dict[str, Any]:
    """A series with the name of an object and one field of its status. Without the field it has no series."""
    return {
        "name": name.removeprefix(f"{_PREFIX}_"),
        "help": text,
        "labelsFromPath": {"namespace": ["metadata", "namespace"], "name": ["metadata", "name"]},
        "each": {"type": "Info", "info": {"path": ["status"], "labelsFromPath": {label: [field]}}},
    }


def _time(name: str, text: str, *path: str) -> dict[str, Any]:
    """A gauge of a time in the metadata of an EphemeralRunner. Without the time it has no series."""
    return {
        "name": name.removeprefix(f"{_PREFIX}_"),
        "help": text,
        "labelsFromPath": {"namespace": ["metadata", "namespace"], "pod": ["metadata", "name"]},
        "each": {"type": "Gauge", "gauge": {"path": ["metadata", *path]}},
        # Otherwise each runner without a job is an error in the log.
        "errorLogV": 10,
    }


def node_labels(cluster: Cluster) -> tuple[str, ...]:
    """The node labels that `kube_node_labels` must have: those of the program, and those by which described pools are known."""
    selectors = (key for name, pool in cluster.pools.items() for key in pool.node_selector(name))
    return tuple(dict.fromkeys((CLUSTER_LABEL, POOL_LABEL, CAPACITY_LABEL, INSTANCE_TYPE_LABEL, *selectors)))


def sanitized(name: str) -> str:
    """The name of a label or resource as kube-state-metrics writes it (internal/store/utils.go, SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
