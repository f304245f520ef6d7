"""Namespaces of teams: no place in the settings may name one that a chart has."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.every import NAMESPACES
from fleet.facts.errors import FleetError
from fleet.loading.config import load
from tests.builders import cluster, config, gitops
from tests.cases import cases

TAKEN = "this namespace belongs to the system, a chart or a runner set; use another for teams"
ARGO_CD = "this namespace belongs to the system, a chart, a runner set or a team; give ArgoCD its own, such as argocd"


def refused(**changes: Any) -> list[str]:
    """What is wrong with a stack of one EKS cluster, a line each."""
    with pytest.raises(FleetError) as raised:
        load(config(clusters={"usw2": cluster(**changes)}))
    return str(raised.value).splitlines()


def test_each_chart_that_has_a_namespace_alone_is_known() -> None:
    assert {
        "amazon-cloudwatch",
        "arc-systems",
        "dcgm-exporter",
        "gpu-operator",
        "gpu-sweeps",
        "kueue-system",
        "nvidia-device-plugin",
    } == NAMESPACES


@cases("name", sorted(NAMESPACES))
@cases(
    ("changes", "path", "message"),
    [
        (lambda name: {"delivery": "argocd", "gitops": gitops(namespace=name)}, "gitops.namespace", ARGO_CD),
        (
            lambda name: {"queues": {"teams": {"ml": {"namespaces": ["ml", name], "quotas": [{"pool": "t4", "nominal": 1}]}}}},
            "queues.teams.ml.namespaces.1",
            TAKEN,
        ),
        (
            lambda name: {"workloads": {"smi": {"kind": "nvidia-smi", "pool": "t4", "namespace": name}}},
            "workloads.smi.namespace",
            TAKEN,
        ),
        (
            lambda name: {"caches": {"models": {"storage": "efs", "size": "500Gi", "namespaces": [name]}}},
            "caches.models.namespaces.0",
            TAKEN,
        ),
    ],
)
def test_a_charts_namespace_is_refused_wherever_it_is_named(changes: Any, path: str, message: str, name: str) -> None:
    assert refused(**changes(name)) == [f'gpu-ci:clusters.usw2.{path}: {message} (got "{name}")']


def test_all_of_them_are_told_at_once() -> None:
    smi = {"kind": "nvidia-smi", "pool": "t4"}
    found = refused(workloads={"a": smi | {"namespace": "kueue-system"}, "b": smi | {"namespace": "gpu-operator"}})
    assert [line.partition(":")[2].partition(":")[0] for line in found] == [
        "clusters.usw2.workloads.a.namespace",
        "clusters.usw2.workloads.b.namespace",
    ]
