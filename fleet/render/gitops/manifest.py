"""An object as Git holds it: without Pulumi's annotations, and with ArgoCD's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.render.gitops.waves import WAVE, wave

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
"""Annotation of an object: the options with which ArgoCD applies it."""
_PULUMI = "pulumi.com/"
COMPARE = "argocd.argoproj.io/compare-options"
"""Annotation: how ArgoCD compares an object, or all objects of an Application."""
_FORCED = ("Deployment", "Job", "LocalQueue", "PriorityClass", "RuntimeClass")
"""Kinds with immutable fields: most of a Job, a LocalQueue's queue, a class's value. If such a field changes, ArgoCD recreates
the object."""
_KEPT = {SYNC_OPTIONS: "Delete=false,Prune=false", COMPARE: "IgnoreExtraneous"}
"""For objects that hold models and data. ArgoCD keeps them after a mistake in Git, and reports no difference for them."""
_CLAIM, _SPACE = "PersistentVolumeClaim", "Namespace"


def committed(manifest: Mapping[str, Any], later: int = 0) -> dict[str, Any]:
    """The object with its wave, which is `later` waves after the wave of its kind. The rest is as the program declares it.

    A Job loses its time to live. Otherwise the Job controller would delete it and ArgoCD would run it again, without end.
    """
    metadata = dict(manifest["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(_PULUMI)}
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
    result |= {key: value for key, value in manifest.items() if key not in result}
    if manifest["kind"] == "Job":
        result["spec"] = {key: value for key, value in manifest["spec"].items() if key != "ttlSecondsAfterFinished"}
    return result
