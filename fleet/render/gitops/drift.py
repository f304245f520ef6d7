"""Fields that controllers write into objects of Git. ArgoCD must ignore them, or both would change them again and again."""

from __future__ import annotations

from typing import Any

from fleet.charts.kueue import NAMESPACE

_CA_BUNDLES = [
    {"group": "admissionregistration.k8s.io", "kind": kind, "jqPathExpressions": [".webhooks[]?.clientConfig.caBundle"]}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
]
_CERTIFICATE = {"group": "", "kind": "Secret", "name": "kueue-webhook-server-cert", "namespace": NAMESPACE}
_CRDS = {"group": "apiextensions.k8s.io", "kind": "CustomResourceDefinition"}

DRIFT: dict[str, list[dict[str, Any]]] = {
    # Kueue creates its certificates itself (kueue v0.19.2 pkg/util/cert/cert.go).
    "kueue": [
        *_CA_BUNDLES,
        _CERTIFICATE | {"jsonPointers": ["/data"]},
        _CRDS | {"jsonPointers": ["/spec/conversion/webhook/clientConfig/caBundle"]},
    ]
}
"""Entries of an Application's ignoreDifferences, by chart."""

JOBS: list[dict[str, Any]] = [
    # Kueue sets these fields when it admits or evicts a Job (kueue v0.19.2 pkg/controller/jobs/job, pkg/podset). Kueue also adds
    # keys to maps, such as node labels. Git has no value for them, so ArgoCD does not revert them.
    {"group": "batch", "kind": "Job", "jsonPointers": ["/spec/suspend", "/spec/template/spec/tolerations"]}
]
"""Entries of ignoreDifferences for the Jobs in Git."""
