"""The order in which ArgoCD creates the objects of one Application, and in reverse removes them.

A wave starts when the wave before is healthy. Objects of one wave do not wait for each other, so an object that may be unhealthy
without harm to others shares a wave with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WAVE = "argocd.argoproj.io/sync-wave"
"""Annotation of an object: its wave, a whole number as text."""

WAVE_OF_SECRETS = 4
"""After all controllers: a secret store that does not answer delays runners, but no driver."""
_WAVES = {
    # What pods name, and what must exist before the first pod.
    "PriorityClass": -3,
    "RuntimeClass": -1,
    "Namespace": -2,
    "NetworkPolicy": -1,
    "ResourceQuota": -1,
    "LimitRange": -1,
    "ConfigMap": -1,
    # Kueue's chart brings these kinds; each names the one before.
    "WorkloadPriorityClass": 1,
    "ResourceFlavor": 1,
    "ClusterQueue": 2,
    "LocalQueue": 3,
    "ExternalSecret": WAVE_OF_SECRETS,
    "SealedSecret": WAVE_OF_SECRETS,
}
TEAMS_LATER = 3
"""How many waves later the namespaces of teams come, with their policies: so objects with Kueue's finalizers go before Kueue."""
_OTHERS = 0
"""All objects of a workload: a claim is bound only when a pod uses it, so no wave can wait for it. A chart has its own wave."""


def wave(manifest: Mapping[str, Any], later: int = 0) -> int:
    """The wave of an object: its own annotation, or the wave of its kind and `later` waves more."""
    said = manifest["metadata"].get("annotations", {}).get(WAVE)
    return int(said) if said is not None else _WAVES.get(manifest["kind"], _OTHERS) + later
