"""What controllers write into objects that Git has: ArgoCD leaves it alone, or both would change it for ever."""

from __future__ import annotations

from typing import Any

from fleet.charts import KUEUE_NAMESPACE

_CA_BUNDLES = [
    {"group": "admissionregistration.k8s.io", "kind": kind, "jqPathExpressions": [".webhooks[]?.clientConfig.caBundle"]}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
]

DRIFT: dict[str, list[dict[str, Any]]] = {
    # Kueue makes its certificates itself (kueue v0.19.2 pkg/util/cert/cert.go).
    "kueue": [
        *_CA_BUNDLES,
        {
            "group": "",
            "kind": "Secret",
            "name": "kueue-webhook-server-cert",
            "namespace": KUEUE_NAMESPACE,
            "jsonPointers": ["/data"],
        },
        {
            "group": "apiextensions.k8s.io",
            "kind": "CustomResourceDefinition",
            "jsonPointers": ["/spec/conversion/webhook/clientConfig/caBundle"],
        },
    ]
}
"""By chart, as an Application has it."""

JOBS: list[dict[str, Any]] = [
    # By these Kueue lets a Job in, and takes it back (kueue v0.19.2 pkg/controller/jobs/job, pkg/podset). What it adds to maps,
    # such as labels of nodes, Git does not say, and so does not undo.
    {"group": "batch", "kind": "Job", "jsonPointers": ["/spec/suspend", "/spec/template/spec/tolerations"]}
]
"""Of Jobs that stand in Git."""
