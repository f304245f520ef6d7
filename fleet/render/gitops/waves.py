"""In which order ArgoCD makes what one Application holds, and in reverse removes it: a wave waits until the last one is healthy.

What stands in one wave does not wait for each other, so what may be sick without harm to others shares a wave with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WAVE = "argocd.argoproj.io/sync-wave"
"""Annotation of an object: its wave, a whole number as text."""

WAVE_OF_SECRETS = 4
"""After all controllers: a store that does not answer keeps runners back, and no driver."""
_WAVES = {
    # What pods name, and what has to stand before the first pod.
    "PriorityClass": -3,
    "RuntimeClass": -1,
    "Namespace": -2,
    "NetworkPolicy": -1,
    "ResourceQuota": -1,
    "LimitRange": -1,
    "ConfigMap": -1,
    # Kueue's kinds come with its chart; each names the one before.
    "WorkloadPriorityClass": 1,
    "ResourceFlavor": 1,
    "ClusterQueue": 2,
    "LocalQueue": 3,
    "ExternalSecret": WAVE_OF_SECRETS,
    "SealedSecret": WAVE_OF_SECRETS,
}
TEAMS_LATER = 3
"""How many waves later the namespaces of teams come, with their walls: what Kueue's finalizers hold in them goes before Kueue."""
_OTHERS = 0
"""All of a workload: a claim is bound only when a pod wants it, so that no wave could wait for it. A chart has its own wave."""


def wave(manifest: Mapping[str, Any], later: int = 0) -> int:
    """The wave of an object: what it says itself, or that of its kind, so many waves `later`."""
    said = manifest["metadata"].get("annotations", {}).get(WAVE)
    return int(said) if said is not None else _WAVES.get(manifest["kind"], _OTHERS) + later
