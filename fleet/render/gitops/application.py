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
"""With it an Application that is removed takes along what it made."""
_ON_SERVER = {COMPARE: "ServerSideDiff=true"}
"""The API server says what of a chart differs. ArgoCD's own comparison for server-side apply finds defaults of CRDs to be
differences (argo-cd v3.5 docs/user-guide/diff-strategies.md, NVIDIA/gpu-operator#2795)."""
_OCI = "oci://"


def application_name(chart: Chart) -> str:
    """A runner set may be called as a controller is; the namespace that is its alone tells them apart."""
    return chart.namespace if chart.needs else chart.name


def application(chart: Chart, git: GitOps) -> Manifest:
    """The release as ArgoCD makes it: the pinned version, the same values, nothing by hand left as it is.

    ArgoCD spells a registry of charts without `oci://` (argo-cd v3.5 docs/user-guide/helm.md).
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
    """Git is what counts: changed by hand is changed back, removed there is removed here.

    What fails is tried again for about an hour, with the newest commit; for ever, it would keep out the commit that mends it. A
    kind that comes with another release of the same sync is not looked up before that stands.
    """
    return {
        "automated": {"prune": True, "selfHeal": True},
        "syncOptions": ["RespectIgnoreDifferences=true", "SkipDryRunOnMissingResource=true", *options],
        "retry": {"limit": 10, "refresh": True, "backoff": {"duration": "30s", "factor": 2, "maxDuration": "10m"}},
    }
