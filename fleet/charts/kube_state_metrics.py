"""Values of kube-state-metrics: the labels of nodes, and the repository of each runner's job.

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
_PREFIX = "kube_customresource"
_GROUP = "actions.github.com"


def job_state() -> dict[str, Any]:
    """The values of kube-state-metrics' chart that add the metric `JOB_INFO`, with the rights that it needs.

    The metric has no label of the job, the branch or the workflow, because their values are unbounded. It has as many series as
    jobs run, because each runner runs one job. Source: kube-state-metrics 2.20.0, customresourcestate-metrics.md; chart 8.4.0.
    """
    metric = {
        "name": JOB_INFO.removeprefix(f"{_PREFIX}_"),
        "help": "The repository of the job that a runner runs.",
        "labelsFromPath": {"namespace": ["metadata", "namespace"], "name": ["metadata", "name"]},
        # A runner without a job has no repository, and therefore no series.
        "each": {"type": "Info", "info": {"path": ["status"], "labelsFromPath": {"repository": ["jobRepositoryName"]}}},
    }
    resource = {
        "groupVersionKind": {"group": _GROUP, "version": "v1alpha1", "kind": "EphemeralRunner"},
        "metricNamePrefix": _PREFIX,
        "metrics": [metric],
    }
    return {
        "customResourceState": {
            "enabled": True,
            "config": {"kind": "CustomResourceStateMetrics", "spec": {"resources": [resource]}},
        },
        "rbac": {
            "extraRules": [
                {"apiGroups": [_GROUP], "resources": ["ephemeralrunners"], "verbs": ["list", "watch"]},
                {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
            ]
        },
    }


def node_labels(cluster: Cluster) -> tuple[str, ...]:
    """The node labels that `kube_node_labels` must have: those of the program, and those by which described pools are known."""
    selectors = (key for name, pool in cluster.pools.items() for key in pool.node_selector(name))
    return tuple(dict.fromkeys((CLUSTER_LABEL, POOL_LABEL, CAPACITY_LABEL, INSTANCE_TYPE_LABEL, *selectors)))


def sanitized(name: str) -> str:
    """The name of a label or resource as kube-state-metrics writes it (internal/store/utils.go, SanitizeLabelName)."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
