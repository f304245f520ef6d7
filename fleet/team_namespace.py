"""What stands in a namespace of a team whose Jobs wait in a queue.

No ResourceQuota of GPUs: Kueue is the cap. A team may use more than its own while others leave some, and its namespaces share
that, so a number of one namespace's would refuse pods of a Job that was let in, while the Job kept its part of the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet import isolation
from fleet.egress import CLOSED


def network_policy(closed: Sequence[str] = CLOSED, opened: Sequence[str] = ()) -> dict[str, Any]:
    """Spec of a NetworkPolicy for every pod of the namespace: as runners', but the pods of one namespace reach each other.

    So several pods train together (NCCL takes any port), and no team's pods reach another's.
    """
    each_other: dict[str, Any] = {"podSelector": {}}
    spec = isolation.network_policy(closed, opened)
    return spec | {"ingress": [{"from": [each_other]}], "egress": [*spec["egress"], {"to": [each_other]}]}


def limit_range() -> dict[str, Any]:
    """Spec of a LimitRange: a container that names no request gets a small one, which a queue then counts.

    No default limit: it would refuse every container that asks for more than that and names no limit.
    """
    return {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "2Gi"}}]}
