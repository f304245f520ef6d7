"""Values of Cluster Autoscaler on AWS, and the ConfigMap by which any Cluster Autoscaler prefers node groups.

How it chooses: kubernetes/autoscaler, cluster-autoscaler/expander/priority/priority.go at 1.36.1. Of the groups that can hold a
pod, the expander keeps those that match a pattern of the highest number. A group without a match is dropped if another one has a
match. Without a valid ConfigMap the expander keeps all groups, and the next expander chooses.
"""

import json
import re
from collections.abc import Mapping, Sequence

from fleet.charts.chart import KUBE_SYSTEM, Chart, Pod, fixed, resources
from fleet.facts import versions
from fleet.facts.scheduling import POOL_LABEL, SYSTEM_SELECTOR

AUTOSCALER = "cluster-autoscaler"
_POD = Pod(AUTOSCALER, 100, 600)

PRIORITIES = "cluster-autoscaler-priority-expander"
"""Name of the ConfigMap. It is in the autoscaler's namespace, and the autoscaler reads its changes without a restart."""
PRIORITIES_KEY = "priorities"
BEST_WASTE = "least-waste"
"""The groups of one pool waste the same, and among equals the autoscaler chooses at random."""
BY_PRIORITY = f"priority,{BEST_WASTE}"
PROVISION_MINUTES = 20
"""A GPU node needs five to ten minutes to boot, join the cluster and pull images."""
BACKOFF_MINUTES, MOST_BACKOFF_MINUTES, FORGOTTEN_HOURS = 5, 30, 3
"""How long the autoscaler leaves a group alone that got no machine: first, at most (each time twice as long), and after how long
without a failure it starts again with the first. These are its defaults (FAQ.md at 1.36.1)."""
_BACKOFF = {
    "initial-node-group-backoff-duration": f"{BACKOFF_MINUTES}m",
    "max-node-group-backoff-duration": f"{MOST_BACKOFF_MINUTES}m",
    "node-group-backoff-reset-timeout": f"{FORGOTTEN_HOURS}h",
}


def comes_back() -> str:
    """When the autoscaler tries a pool again that got no machine, in words."""
    return f"{BACKOFF_MINUTES} to {MOST_BACKOFF_MINUTES} minutes later"


def anchored(name: str) -> str:
    """A pattern of names that start with `name`. Without an anchor t4-spot would also match not-t4-spot."""
    return "^" + re.escape(name).replace(r"\-", "-")


def priorities(ranks: Mapping[str, int], patterns: Mapping[str, Sequence[str]]) -> str:
    """The ConfigMap's text: a number for each rank of pools, with the patterns of their groups, the highest first.

    `ranks` are those of `fleet.settings.pool_order`. The lowest number matches every group, because the autoscaler would drop a
    group without a number: one of the system pool, of a pool without an order, or one that the program did not create.
    """
    rows = [
        (rank * 10, [pattern for pool in ranks if ranks[pool] == rank for pattern in patterns[pool]])
        for rank in sorted(set(ranks.values()), reverse=True)
    ]
    # JSON is valid YAML, also for a backslash.
    return "".join(f"{number}: {json.dumps(held)}\n" for number, held in (*rows, (1, [".*"])))


def cluster_autoscaler(
    cluster: str, region: str, kubernetes: str, selector: Mapping[str, str] = SYSTEM_SELECTOR, *, by_priority: bool = False
) -> Chart:
    """Cluster Autoscaler for the cluster's Kubernetes minor, on the nodes of `selector`.

    It gets its AWS permissions by Pod Identity. `by_priority`: whether it prefers groups by the ConfigMap. The chart lets it read
    the ConfigMap, and it does not create one as long as `expanderPriorities` is empty.
    """
    given = {"cluster": cluster, "region": region, "selector": dict(selector), "sizes": resources(_POD)}
    given |= {"tag": versions.KUBERNETES[kubernetes].cluster_autoscaler, "expander": BY_PRIORITY if by_priority else BEST_WASTE}
    values = fixed(AUTOSCALER, **given, label=POOL_LABEL, provision=f"{PROVISION_MINUTES}m")
    values["extraArgs"] |= _BACKOFF if by_priority else {}
    return Chart(AUTOSCALER, AUTOSCALER, KUBE_SYSTEM, values, (_POD,), f"infrastructure/controllers/{AUTOSCALER}")
