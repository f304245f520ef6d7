"""The kinds of objects that a follower asks the API for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind of objects lies: the API's path before `/namespaces`, the resource's plural and its group (empty: core).

    One that is not `namespaced` lies in no namespace.
    """

    root: str
    resource: str
    group: str
    namespaced: bool = True

    @property
    def full(self) -> str:
        """The resource as the API's own messages and RBAC spell it: `jobs.batch`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


JOBS = Kind("/apis/batch/v1", "jobs", "batch")
PODS = Kind("/api/v1", "pods", "")
EVENTS = Kind("/api/v1", "events", "")
NAMESPACES = Kind("/api/v1", "namespaces", "", namespaced=False)
NETWORK_POLICIES = Kind("/apis/networking.k8s.io/v1", "networkpolicies", "networking.k8s.io")
WORKLOADS = Kind("/apis/kueue.x-k8s.io/v1beta2", "workloads", "kueue.x-k8s.io")
"""Kueue's view of a Job that waits in a queue (Kueue 0.19: v1beta2)."""
