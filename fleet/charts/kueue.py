"""Values of Kueue, which starts a team's GPU Jobs when the team's quota has room.

Facts: kubernetes-sigs/kueue v0.19.2, charts/kueue and apis/config/v1beta2.
"""

import json
from collections.abc import Iterable, Mapping

from fleet.charts.chart import Chart, Pod, fixed, resources
from fleet.facts.pods import CONFINED, CONFINED_POD
from fleet.facts.scheduling import SYSTEM_SELECTOR

KUEUE = "kueue"
NAMESPACE = "kueue-system"
_POD = Pod(KUEUE, 200, 512)


def kueue(
    namespaces: Iterable[str], *, fair_sharing: bool = False, selector: Mapping[str, str] = SYSTEM_SELECTOR, metrics: bool = False
) -> Chart:
    """Kueue for the Jobs of these namespaces. It neither delays nor ends Jobs in other namespaces, even if they have its labels.

    `selector` is the node selector of its Deployment. With `metrics` it also exports quotas and their use.

    Its Deployment is ready only when its webhooks answer (cmd/kueue/main.go), so queues can be created once the release is ready.
    While the webhooks are down, no Job can be created in these namespaces. Running Jobs continue.
    """
    closed = CONFINED | {"readOnlyRootFilesystem": True}
    manager = {"resources": resources(_POD), "podSecurityContext": CONFINED_POD, "containerSecurityContext": closed}
    named = {"metrics": {"enableClusterQueueResources": True} if metrics else None, "namespaces": sorted(namespaces)}
    # Kueue tries the first strategy before the second (the comment in the chart's values).
    strategies = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    config = fixed(KUEUE, fair=strategies if fair_sharing else None, **named)
    values = {
        "fullnameOverride": KUEUE,
        "controllerManager": {"replicas": 1, "nodeSelector": dict(selector), "manager": manager},
        # The chart reads this text as YAML, which includes JSON.
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(config, indent=2)},
    }
    return Chart(KUEUE, KUEUE, NAMESPACE, values, (_POD,), "infrastructure/queues")
