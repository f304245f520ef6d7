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
_WAVES = {
    # Objects that pods name, and objects that must exist before the first pod.
    "PriorityClass": -3,
    "RuntimeClass": -1,
    "Namespace": -2,
    "NetworkPolicy": -1,
    "ResourceQuota": -1,
    "LimitRange": -1,
    "ConfigMap": -1,
    "ServiceAccount": -1,
    "ClusterRole": -1,
    "Role": -1,
    "StorageClass": -1,
    # Kueue's chart installs these kinds. Each refers to the one before it.
    "WorkloadPriorityClass": 1,
    "ResourceFlavor": 1,
    "ClusterQueue": 2,
    "LocalQueue": 3,
    # Prometheus's operator installs these kinds.
    "PodMonitor": 1,
    "ServiceMonitor": 1,
    "PrometheusRule": 1,
    "ExternalSecret": WAVE_OF_SECRETS,
    "SealedSecret": WAVE_OF_SECRETS,
}
TEAMS_LATER = 3
"""How many waves later the namespaces and policies of teams come. So objects with Kueue's finalizers are deleted before Kueue."""
_OTHERS = 0
"""The wave of all objects of a workload. A claim is bound only when a pod uses it, so no wave can wait for a claim. A chart has
its own wave."""


def wave(manifest: Mapping[str, Any], later: int = 0) -> int:
    """The wave of an object: its own annotation, or the wave of its kind plus `later`."""
    annotated = manifest["metadata"].get("annotations", {}).get(WAVE)
    return int(annotated) if annotated is not None else _WAVES.get(manifest["kind"], _OTHERS) + later
