"""Values of Kueue, which starts the GPU Jobs of teams when their quota has room.

Facts: kubernetes-sigs/kueue v0.19.2, charts/kueue and apis/config/v1beta2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fleet.charts.chart import Chart, Pod, published, resources
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.scheduling import NAMESPACE_NAME_LABEL, SYSTEM_POOL, pool_selector
from fleet.settings.model import go_duration

KUEUE = "kueue"
NAMESPACE = "kueue-system"
_POD = Pod(KUEUE, 200, 512)

_READY_WITHIN = 1800
"""Seconds in which the pods of an admitted Job run: a GPU node boots and pulls in ten minutes, and the autoscaler gives one up
after twenty. Later than that the Job gives its quota back and waits again, which tells an owner of capacity that never came."""


def kueue(namespaces: Iterable[str], *, fair_sharing: bool = False) -> Chart:
    """Kueue for the Jobs of some namespaces: what it does not manage it neither holds back nor ends, whatever its labels.

    Its Deployment is ready only when its webhooks answer (cmd/kueue/main.go), so what waits for the release may make queues.
    While it is not, no Job is made in those namespaces; the Jobs that run go on.
    """
    return published(
        "kueue",
        KUEUE,
        NAMESPACE,
        {
            "fullnameOverride": KUEUE,
            "controllerManager": {
                "replicas": 1,
                "nodeSelector": pool_selector(SYSTEM_POOL),
                "manager": {
                    "resources": resources(_POD),
                    "podSecurityContext": CONFINED_POD,
                    "containerSecurityContext": CONFINED | {"readOnlyRootFilesystem": True},
                },
            },
            # One text for the chart, which reads it as YAML, and so as JSON.
            "managerConfig": {"controllerManagerConfigYaml": json.dumps(_config(sorted(namespaces), fair_sharing), indent=2)},
        },
        [_POD],
        folder="infrastructure/queues",
    )


def _config(namespaces: list[str], fair_sharing: bool) -> dict[str, Any]:
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "integrations": {"frameworks": ["batch/job"]},
        # A Job that names no queue goes to its namespace's default one; outside of these namespaces no webhook is asked at all.
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": {
            "matchExpressions": [{"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": namespaces}]
        },
        "waitForPodsReady": {"timeout": go_duration(_READY_WITHIN), "blockAdmission": False},
        # Disk is a node's, no queue has a quota of it; and a Job that asks for what no quota covers would never start.
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
    }
    # Of both it tries the first where that makes room, as the comment in the chart's values has them.
    strategies = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    return config | ({"fairSharing": strategies} if fair_sharing else {})
