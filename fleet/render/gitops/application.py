"""A chart as an ArgoCD Application: the second way to hand a chart to a cluster (argoproj.io/v1alpha1, ArgoCD v3)."""

from __future__ import annotations

from typing import Any

from fleet.charts import Chart
from fleet.render.gitops.drift import DRIFT
from fleet.render.gitops.manifest import COMPARE
from fleet.render.gitops.waves import WAVE
from fleet.settings.gitops import GitOps

Manifest = dict[str, Any]

API = "argoproj.io/v1alpha1"
IN_CLUSTER = "https://kubernetes.default.svc"
"""The cluster that ArgoCD itself runs in."""
FINALIZER = "resources-finalizer.argocd.argoproj.io"
"""With it ArgoCD removes the objects of an Application that is removed."""
_ON_SERVER = {COMPARE: "ServerSideDiff=true"}
"""The API server computes the differences. ArgoCD's own comparison for server-side apply reports defaults of CRDs as differences
(argo-cd v3.5 docs/user-guide/diff-strategies.md, NVIDIA/gpu-operator#2795)."""
_OCI = "oci://"


def application_name(chart: Chart) -> str:
    """A runner set's Application has the name of the set's namespace, because a controller may have the name of the set."""
    return chart.namespace if chart.needs else chart.name


def application(chart: Chart, git: GitOps) -> Manifest:
    """The release as an Application: the pinned version and the same values; manual changes are reverted.

    ArgoCD writes a registry of charts without `oci://` (argo-cd v3.5 docs/user-guide/helm.md).
    """
    source = {
        "repoURL": chart.repository.removeprefix(_OCI),
        "chart": chart.chart,
        "targetRevision": chart.version,
        "helm": {"releaseName": chart.name, "valuesObject": chart.values},
    }
    return {
        "apiVersion": API,
        "kind": "Application",
        "metadata": {
            "name": application_name(chart),
            "namespace": git.namespace,
            "annotations": {WAVE: str(chart.wave)} | _ON_SERVER,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "project": git.project,
            "source": source,
            "destination": {"server": IN_CLUSTER, "namespace": chart.namespace},
            # CRDs of ARC and Kueue are larger than the annotation of a client-side apply.
            "syncPolicy": sync_policy("ServerSideApply=true"),
        }
        | ({"ignoreDifferences": DRIFT[chart.chart]} if chart.chart in DRIFT else {}),
    }


def folder(git: GitOps, below: str) -> Manifest:
    """The source that is a folder below the cluster's in Git."""
    return {"repoURL": git.repository, "targetRevision": git.revision, "path": f"{git.path}/{below}"}


def sync_policy(*options: str) -> Manifest:
    """Git decides: ArgoCD reverts manual changes, and removes what is removed from Git.

    A failed sync is retried for about an hour, with the newest commit; an endless retry would block the commit that fixes it. A
    kind that another release of the same sync brings is not looked up before that release is there.
    """
    return {
        "automated": {"prune": True, "selfHeal": True},
        "syncOptions": ["RespectIgnoreDifferences=true", "SkipDryRunOnMissingResource=true", *options],
        "retry": {"limit": 10, "refresh": True, "backoff": {"duration": "30s", "factor": 2, "maxDuration": "10m"}},
    }
