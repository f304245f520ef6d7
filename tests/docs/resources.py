"""Kinds of Kubernetes objects that pages may name to kubectl, and what installs each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate

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
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
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
BY_ARC = frozenset(
    (
        "autoscalinglistener",
        "autoscalinglisteners",
        "autoscalingrunnerset",
        "autoscalingrunnersets",
        "ephemeralrunner",
        "ephemeralrunners",
        "ephemeralrunnersets",
    )
)
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
VERBS = frozenset(("annotate", "delete", "describe", "get", "label", "patch", "taint", "wait"))
"""Commands whose first word is a kind, or kinds."""


def unknown_kinds(call: Call) -> Iterator[str]:
    """Kinds that a call names and no cluster has."""
    plain = [*_plain(call.words)]
    if len(plain) > 1 and plain[0] in VERBS:
        for kind in plain[1].partition("/")[0].split(","):
            if not any(kind in _kinds(inside) for inside in insides()):
                yield f"kind {kind}"


def unknown_fields(call: Call) -> Iterator[str]:
    """Fields that the columns of a call name and the API's nodes and pods do not have."""
    plain, output = [*_plain(call.words)], call.option("-o", "--output") or ""
    if plain[:2] not in (["get", "nodes"], ["get", "pods"]) or not output.startswith("custom-columns="):
        return
    for column in re.split(r",(?=[A-Z]+:)", output.partition("=")[2]):
        schema = _schema(plain[1].removesuffix("s"))
        # A dot is part of a key after a backslash, and inside of brackets.
        for key in re.findall(r"\.((?:\\.|\[[^]]*\]|[^.\[\\])+)", column.partition(":")[2]):
            below = _below(schema, key)
            if below is None:
                yield f"field {key} in {column}"
                break
            schema = below


def _below(schema: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """The schema of a key of an object, of a list's items if the key has brackets; None if the object has no such key."""
    name, bracket, _ = key.partition("[")
    found = _resolved(schema.get("properties", {}).get(name, schema.get("additionalProperties")))
    if not isinstance(found, Mapping) or bool(bracket) is not ("items" in found):
        return None
    return _resolved(found["items"]) if bracket else found


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    return _file(f"{kind}-v1.json")


@cache
def _file(name: str) -> Mapping[str, Any]:
    """A schema of Kubernetes 1.34, as kubernetes-validate has it."""
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / "v1.34.0-local"
    found: Mapping[str, Any] = json.loads((folder / name).read_text())
    return found


def _resolved(schema: Any) -> Any:
    """A schema, or the definition that it refers to."""
    while isinstance(schema, Mapping) and "$ref" in schema:
        path = schema["$ref"].partition("#/")[2]
        schema = _file("_definitions.json")
        for key in path.split("/"):
            schema = schema[key]
    return schema


def _kinds(inside: Inside) -> frozenset[str]:
    by_chart = {kind for kind, chart in BY_CHART.items() if chart in inside.charts}
    return BUILT_IN | by_chart | (BY_ARC if inside.sets else set()) | (BY_GIT if inside.cluster.gitops is not None else set())


def _plain(words: tuple[str, ...]) -> Iterator[str]:
    """The words that are neither options nor values of the options before a name."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-n", "--namespace", "-l", "--selector", "--field-selector", "--raw"):
            skip = True
        elif not word.startswith("-"):
            yield word
