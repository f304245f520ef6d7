"""The order in which ArgoCD creates the objects of one Application. ArgoCD deletes them in the reverse order.

A wave starts when the wave before it is healthy. Objects of one wave do not wait for each other. So an object whose bad health
must not delay others is in the same wave as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WAVE = "argocd.argoproj.io/sync-wave"
"""Annotation of an object: its wave, a whole number as text."""

WAVE_OF_SECRETS = 4
"""After all controllers, so that a secret store that does not answer delays the runners but no driver."""
_KINDS = {
    # Objects that pods name, and objects that must exist before the first pod.
    -3: ("PriorityClass",),
    -2: ("Namespace",),
    -1: (
        *("RuntimeClass", "NetworkPolicy", "ResourceQuota", "LimitRange", "ConfigMap"),
        *("ServiceAccount", "ClusterRole", "Role", "StorageClass"),
    ),
    # Kueue's chart installs the first kinds, of which each refers to the one before it, and Prometheus's operator the others.
    1: ("WorkloadPriorityClass", "ResourceFlavor", "PodMonitor", "ServiceMonitor", "PrometheusRule"),
    2: ("ClusterQueue",),
    3: ("LocalQueue",),
    WAVE_OF_SECRETS: ("ExternalSecret", "SealedSecret"),
}
_WAVES = {kind: number for number, kinds in _KINDS.items() for kind in kinds}
TEAMS_LATER = 3
"""How many waves later the namespaces and policies of teams come. So objects with Kueue's finalizers are deleted before Kueue."""
_OTHERS = 0
"""The wave of all objects of a workload. A claim is bound only when a pod uses it, so no wave can wait for a claim. A chart has
its own wave."""


def wave(manifest: Mapping[str, Any], later: int = 0) -> int:
    """The wave of an object: its own annotation, or the wave of its kind plus `later`."""
    annotated = manifest["metadata"].get("annotations", {}).get(WAVE)
    return int(annotated) if annotated is not None else _WAVES.get(manifest["kind"], _OTHERS) + later
