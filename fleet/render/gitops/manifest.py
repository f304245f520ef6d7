"""An object as Git has it: without what only Pulumi reads, with what ArgoCD does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.render.gitops.waves import WAVE, wave

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
"""Annotation of an object: how ArgoCD applies it."""
_PULUMI = "pulumi.com/"
COMPARE = "argocd.argoproj.io/compare-options"
"""Annotation: how ArgoCD compares an object, or all of an Application."""
_OPTIONS = dict.fromkeys(
    # What the API server does not let change is made anew, and only then: most of a Job, a LocalQueue's queue, a class's value.
    ("Deployment", "Job", "LocalQueue", "PriorityClass", "RuntimeClass"),
    "Force=true",
)
_KEPT = {SYNC_OPTIONS: "Delete=false,Prune=false", COMPARE: "IgnoreExtraneous"}
"""Of what holds models and data: it outlives a slip of the pen in Git, and is no difference then."""
_CLAIM, _SPACE = "PersistentVolumeClaim", "Namespace"


def committed(manifest: Mapping[str, Any], later: int = 0) -> dict[str, Any]:
    """The object with its wave, so many `later` than its kind's; the rest as the program declares it.

    A Job loses its time to live: the Job controller would remove it, and ArgoCD run it again, for ever.
    """
    metadata = dict(manifest["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(_PULUMI)}
    # The one object that no Application holds.
    if manifest["kind"] != "ApplicationSet":
        annotations[WAVE] = str(wave(manifest, later))
    if manifest["kind"] in _OPTIONS:
        annotations[SYNC_OPTIONS] = _OPTIONS[manifest["kind"]]
    # A namespace of teams, which come later than others, goes with all claims in it.
    if manifest["kind"] == _CLAIM or (manifest["kind"] == _SPACE and later):
        annotations |= _KEPT
    made = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    made["metadata"] = metadata | ({"annotations": dict(sorted(annotations.items()))} if annotations else {})
    made |= {key: value for key, value in manifest.items() if key not in made}
    if manifest["kind"] == "Job":
        made["spec"] = {key: value for key, value in manifest["spec"].items() if key != "ttlSecondsAfterFinished"}
    return made
