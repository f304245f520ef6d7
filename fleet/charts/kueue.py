"""Values of Kueue, which starts a team's GPU Jobs when the team's quota has room.

Facts: kubernetes-sigs/kueue v0.19.2, charts/kueue and apis/config/v1beta2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.charts.chart import Chart, Pod, resources
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.scheduling import NAMESPACE_NAME_LABEL, SYSTEM_SELECTOR
from fleet.settings.model import go_duration

KUEUE = "kueue"
NAMESPACE = "kueue-system"
_POD = Pod(KUEUE, 200, 512)

_READY_WITHIN = 1800
"""Seconds within which all pods of an admitted Job must run. A GPU node boots and pulls images in ten minutes, and the autoscaler
gives up on a node after twenty. After this time the Job returns its quota and waits again, so its owner sees that there is no
capacity."""


def kueue(
    namespaces: Iterable[str],
    *,
    fair_sharing: bool = False,
    selector: Mapping[str, str] = SYSTEM_SELECTOR,
    metrics: bool = False,
) -> Chart:
    """Kueue for the Jobs of these namespaces. It neither delays nor ends Jobs in other namespaces, even if they have its labels.

    `selector` is the node selector of its Deployment. With `metrics` it also exports quotas and their use.

    Its Deployment is ready only when its webhooks answer (cmd/kueue/main.go), so queues can be created once the release is ready.
    While the webhooks are down, no Job can be created in these namespaces. Running Jobs continue.
    """
    return Chart(
        "kueue",
        KUEUE,
        NAMESPACE,
        {
            "fullnameOverride": KUEUE,
            "controllerManager": {
                "replicas": 1,
                "nodeSelector": dict(selector),
                "manager": {
                    "resources": resources(_POD),
                    "podSecurityContext": CONFINED_POD,
                    "containerSecurityContext": CONFINED | {"readOnlyRootFilesystem": True},
                },
            },
            # The chart reads this text as YAML, which includes JSON.
            "managerConfig": {
                "controllerManagerConfigYaml": json.dumps(_config(sorted(namespaces), fair_sharing, metrics), indent=2)
            },
        },
        (_POD,),
        folder="infrastructure/queues",
    )


def _config(namespaces: list[str], fair_sharing: bool, metrics: bool) -> dict[str, Any]:
    in_namespaces = {"key": NAMESPACE_NAME_LABEL, "operator": "In", "values": namespaces}
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": True},
        "integrations": {"frameworks": ["batch/job"]},
        # A Job without a queue gets the default queue of its namespace. No webhook is called outside these namespaces.
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": {"matchExpressions": [in_namespaces]},
        "waitForPodsReady": {"timeout": go_duration(_READY_WITHIN), "blockAdmission": False},
        # No queue has a quota for disk. A Job that requests a resource without a quota never starts.
        "resources": {"excludeResourcePrefixes": ["ephemeral-storage"]},
    }
    if metrics:
        config["metrics"] = {"enableClusterQueueResources": True}
    # Kueue tries the first strategy before the second (the comment in the chart's values).
    strategies = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    return config | ({"fairSharing": strategies} if fair_sharing else {})
