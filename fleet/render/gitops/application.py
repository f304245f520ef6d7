"""ArgoCD's Applications (argoproj.io/v1alpha1, ArgoCD v3): one for each chart, which ArgoCD installs instead of Pulumi, and one
for each tier of a cluster, from the ApplicationSet. That is the only object that an operator applies by hand.
"""

from collections.abc import Mapping

from fleet.charts.chart import Chart, fixed, part
from fleet.facts.manifest import Manifest, manifest
from fleet.render.gitops.manifest import COMPARE, WAVE
from fleet.settings.gitops import GitOps

API = "argoproj.io/v1alpha1"
IN_CLUSTER = "https://kubernetes.default.svc"
"""The cluster in which ArgoCD itself runs."""
FINALIZER = "resources-finalizer.argocd.argoproj.io"
"""With it ArgoCD deletes the objects of an Application when the Application is deleted."""
_ON_SERVER = {COMPARE: "ServerSideDiff=true"}
"""The API server computes the differences. ArgoCD's own comparison for server-side apply reports defaults of CRDs as differences
(argo-cd v3.5 docs/user-guide/diff-strategies.md, NVIDIA/gpu-operator#2795)."""
_DRIFT = fixed("drift", __file__)
TIERS = ("infrastructure", "workloads")
"""Folders of a cluster, each with its own Application: the charts for GPUs and runners, and the workloads beside CI."""
NAME = "gpu-ci"


def application_name(chart: Chart) -> str:
    """A runner set's Application has the name of the set's namespace, because a controller may have the name of the set."""
    return chart.namespace if chart.needs else chart.name


def application(chart: Chart, git: GitOps) -> Manifest:
    """The release as an Application: the pinned version and the same values. ArgoCD reverts manual changes.

    ArgoCD writes a registry of charts without `oci://` (argo-cd v3.5 docs/user-guide/helm.md).
    """
    repo_url = chart.repository.removeprefix("oci://")
    helm = {"releaseName": chart.name, "valuesObject": chart.values}
    source = {"repoURL": repo_url, "chart": chart.chart, "targetRevision": chart.version, "helm": helm}
    annotations = {WAVE: str(chart.wave)} | _ON_SERVER
    # CRDs of ARC and Kueue are larger than the annotation of a client-side apply.
    document = application_of(application_name(chart), git, source, chart.namespace, annotations, "ServerSideApply=true")
    if chart.chart in _DRIFT["charts"]:
        document["spec"]["ignoreDifferences"] = _DRIFT["charts"][chart.chart]
    return document


def application_of(
    name: str, git: GitOps, source: Manifest, namespace: str, annotations: Mapping[str, str], *options: str
) -> Manifest:
    """An Application that applies `source` to `namespace`. `options` are further options of its syncs."""
    spec = spec_of(git, source, namespace) | {"syncPolicy": sync_policy(*options)}
    return manifest(API, "Application", name, git.namespace, spec, annotations=annotations, finalizers=[FINALIZER])


def spec_of(git: GitOps, source: Manifest, namespace: str) -> Manifest:
    """Spec of an Application: the project, the source, and the namespace of ArgoCD's own cluster."""
    return {"project": git.project, "source": source, "destination": {"server": IN_CLUSTER, "namespace": namespace}}


def folder(git: GitOps, below: str) -> Manifest:
    """The source for a folder below the cluster's folder in Git."""
    return {"repoURL": git.repository, "targetRevision": git.revision, "path": f"{git.path}/{below}"}


def sync_policy(*options: str) -> Manifest:
    """ArgoCD reverts manual changes, and deletes objects that are removed from Git.

    It retries a failed sync for about an hour, with the newest commit. An endless retry would block the commit that fixes it.
    `SkipDryRunOnMissingResource` allows objects whose CRD is installed by another release of the same sync.
    """
    policy = part(__file__, "sync")
    policy["syncOptions"] += options
    return policy


def applicationset(git: GitOps) -> Manifest:
    """An ApplicationSet that creates an Application for each tier. That Application creates all objects of its folder.

    The ApplicationSet lists the folders instead of asking Git for them. So if a path is wrong, its Application reports the error,
    and ArgoCD deletes no Application because of it.
    """
    generated = spec_of(git, folder(git, "{{ .tier }}") | {"directory": {"recurse": True}}, git.namespace)
    generated |= {"ignoreDifferences": _DRIFT["jobs"], "syncPolicy": sync_policy()}
    tiers = [{"tier": tier} for tier in TIERS]
    spec = part(__file__, "set", finalizers=[FINALIZER], spec=generated, tiers=tiers, title=NAME + "-{{ .tier }}")
    return manifest(API, "ApplicationSet", NAME, git.namespace, spec)
