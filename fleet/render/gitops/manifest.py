"""An object as Git holds it: without Pulumi's annotations, and with ArgoCD's, among them its place in the order.

ArgoCD creates the objects of one Application by their waves, and deletes them in the reverse order. A wave starts when the wave
before it is healthy. Objects of one wave do not wait for each other. So an object whose bad health must not delay others is in
the same wave as they are.
"""

from collections.abc import Mapping
from typing import Any

from fleet.facts.tables import beside

WAVE = "argocd.argoproj.io/sync-wave"
"""Annotation of an object: its wave, a whole number as text."""

WAVE_OF_SECRETS = 4
"""After all controllers, so that a secret store that does not answer delays the runners but no driver."""
_WAVES = {kind: row["wave"] for row in beside(__file__, "waves.toml")["waves"] for kind in row["kinds"]}
TEAMS_LATER = 3
"""How many waves later the namespaces and policies of teams come. So objects with Kueue's finalizers are deleted before Kueue."""


def wave(manifest: Mapping[str, Any], later: int = 0) -> int:
    """The wave of an object: its own annotation, or the wave of its kind plus `later`."""
    # Objects of a workload have the wave 0. A claim is bound only when a pod uses it, so no wave can wait for a claim.
    annotated = manifest["metadata"].get("annotations", {}).get(WAVE)
    return int(annotated) if annotated is not None else _WAVES.get(manifest["kind"], 0) + later


SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
"""Annotation of an object: the options with which ArgoCD applies it."""
COMPARE = "argocd.argoproj.io/compare-options"
"""Annotation: how ArgoCD compares an object, or all objects of an Application."""
_FORCED = ("Deployment", "Job", "LocalQueue", "PriorityClass", "RuntimeClass")
"""Kinds with immutable fields: most of a Job, a LocalQueue's queue, a class's value. If such a field changes, ArgoCD recreates
the object."""
_KEPT = {SYNC_OPTIONS: "Delete=false,Prune=false", COMPARE: "IgnoreExtraneous"}
"""For objects that hold models and data. ArgoCD keeps them after a mistake in Git, and reports no difference for them."""
_CLAIM, _SPACE = "PersistentVolumeClaim", "Namespace"


def committed(manifest: Mapping[str, Any], later: int = 0) -> dict[str, Any]:
    """The object with its wave, which is `later` waves after the wave of its kind. The rest is as the program declares it."""
    metadata = dict(manifest["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith("pulumi.com/")}
    # An ApplicationSet is the only object that belongs to no Application.
    if manifest["kind"] != "ApplicationSet":
        annotations[WAVE] = str(wave(manifest, later))
    if manifest["kind"] in _FORCED:
        annotations[SYNC_OPTIONS] = "Force=true"
    # Only namespaces of teams have a later wave. Deleting one would delete all claims in it.
    if manifest["kind"] == _CLAIM or (manifest["kind"] == _SPACE and later):
        annotations |= _KEPT
    result = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    result["metadata"] = metadata | ({"annotations": dict(sorted(annotations.items()))} if annotations else {})
    return result | {key: value for key, value in manifest.items() if key not in result}
