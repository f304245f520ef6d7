"""What stands in a namespace of a team: whoever runs there, in a queue or without one, the namespace has one wall.

No ResourceQuota of GPUs: Kueue is the cap. A team may use more than its own while others leave some, and its namespaces share
that, so a number of one namespace's would refuse pods of a Job that was let in, while the Job kept its part of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.facts.pods import Level
from fleet.facts.scheduling import POD_SECURITY_LABEL
from fleet.render import isolation
from fleet.settings.cluster import Cluster
from fleet.settings.egress import CLOSED

NAME = "team"
"""Of NetworkPolicy and LimitRange: a namespace has one of each."""


@dataclass(frozen=True, slots=True)
class Home:
    """The manifests of a namespace: itself, its NetworkPolicy, and where Jobs wait in a queue its LimitRange."""

    namespace: dict[str, Any]
    wall: dict[str, Any]
    limits: dict[str, Any] | None = None

    @property
    def manifests(self) -> tuple[dict[str, Any], ...]:
        """All of them, in the order in which they are to be applied."""
        return (self.namespace, self.wall, *((self.limits,) if self.limits is not None else ()))


def homes(cluster: Cluster) -> dict[str, Home]:
    """Every namespace that a cluster's queues, workloads, caches and jobs name, by its name."""
    queued = cluster.queues.namespaces if cluster.queues is not None else ()
    spec = network_policy(cluster.closed_networks, cluster.private_egress)
    return {
        name: Home(
            namespace(name, level),
            wall(NAME, name, spec),
            _object("v1", "LimitRange", NAME, name, limit_range()) if name in queued else None,
        )
        for name, level in cluster.team_namespaces.items()
    }


def namespace(name: str, level: Level) -> dict[str, Any]:
    """A namespace whose pods the API server holds to a Pod Security Standard."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {POD_SECURITY_LABEL: level}}}


def wall(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A NetworkPolicy of this spec."""
    return _object("networking.k8s.io/v1", "NetworkPolicy", name, namespace, spec)


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


def _object(version: str, kind: str, name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": dict(spec)}
