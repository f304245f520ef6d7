"""Kinds of Kubernetes objects that pages may name to kubectl, and what brings each."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.gpu_operator import OPERATOR
from fleet.charts.kueue import KUEUE
from tests.docs.inside import Inside, insides
from tests.docs.kubectl import Call

BUILT_IN = frozenset(
    (
        "configmap",
        "cronjob",
        "daemonset",
        "daemonsets",
        "deployment",
        "deployments",
        "events",
        "job",
        "limitranges",
        "namespace",
        "namespaces",
        "networkpolicies",
        "node",
        "nodes",
        "persistentvolumeclaims",
        "pod",
        "pods",
        "priorityclasses",
        "resourcequotas",
        "runtimeclass",
        "runtimeclasses",
        "runtimeclasses.node.k8s.io",
        "secret",
        "service",
        "statefulset",
        "storageclasses",
    )
)
"""Names that the API server itself has (kubectl api-resources of 1.32)."""
BY_CHART = {
    "clusterpolicies": OPERATOR,
    "clusterqueues": KUEUE,
    "localqueues": KUEUE,
    "resourceflavors": KUEUE,
    "workloads": KUEUE,
}
"""Custom kinds by the chart that has their definition: crds/ and templates/crd of gpu-operator and kueue."""
BY_ARC = frozenset(("autoscalingrunnersets", "ephemeralrunner", "ephemeralrunners"))
"""Kinds of ARC's controller, which every cluster with runners has (gha-runner-scale-set-controller, crds/)."""
BY_GIT = frozenset(
    (
        "applications.argoproj.io",
        "applicationsets.argoproj.io",
        "clustersecretstores.external-secrets.io",
        "externalsecrets.external-secrets.io",
    )
)
"""Kinds of a cluster that ArgoCD delivers: its own, and those of External Secrets (docs/gitops.md)."""
VERBS = frozenset(("annotate", "delete", "describe", "get", "label", "taint", "wait"))
"""Commands whose first word is a kind, or kinds."""


def unknown_kinds(call: Call) -> Iterator[str]:
    """Kinds that a call names and no cluster has."""
    plain = [*_plain(call.words)]
    if len(plain) > 1 and plain[0] in VERBS:
        for kind in plain[1].partition("/")[0].split(","):
            if not any(kind in _kinds(inside) for inside in insides()):
                yield f"kind {kind}"


def _kinds(inside: Inside) -> frozenset[str]:
    by_chart = {kind for kind, chart in BY_CHART.items() if chart in inside.charts}
    return BUILT_IN | by_chart | (BY_ARC if inside.sets else set()) | (BY_GIT if inside.cluster.gitops is not None else set())


def _plain(words: tuple[str, ...]) -> Iterator[str]:
    """The words that are no options and no values of the options before a name."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-n", "--namespace", "-l", "--selector", "--field-selector", "--raw"):
            skip = True
        elif not word.startswith("-"):
            yield word
