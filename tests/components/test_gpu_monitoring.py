"""GpuMonitoring in a cluster: what waits for what, and what it declares for a Prometheus of the owner."""

from __future__ import annotations

import pytest

from tests.components.recorded import recorded

RELEASE = "kubernetes:helm.sh/v3:Release"
STACK = "monitoring"


def _below(cluster):
    found = recorded(STACK)
    (component,) = (each for each in found.resources if each.name == f"{cluster}-monitoring" and each.type.startswith("gpu-ci:"))
    return {each.urn: each for each in found.resources if each.parent == component.urn}


def _named(held, ending):
    (found,) = (each for each in held.values() if each.name.endswith(ending))
    return found


@pytest.mark.parametrize("cluster", ["use1", "usw2", "sjc"])
def test_monitors_come_after_the_release_that_brings_their_kinds(cluster):
    held = _below(cluster)
    release = _named(held, "kube-prometheus-stack-chart")
    monitors = [each for each in held.values() if each.type.startswith("kubernetes:monitoring.coreos.com/")]
    assert monitors
    assert [each.name for each in monitors if release.urn not in each.dependencies] == []


@pytest.mark.parametrize("cluster", ["use1", "usw2", "sjc"])
def test_network_policies_come_after_the_namespace_that_they_are_in(cluster):
    spaces = {
        each.inputs["metadata"]["name"]: each.urn
        for each in recorded(STACK).resources
        if each.type.endswith(":Namespace") and each.name.startswith(cluster)
    }
    policies = [each for each in _below(cluster).values() if each.type.endswith(":NetworkPolicy")]
    assert policies
    assert [each.name for each in policies if spaces[each.inputs["metadata"]["namespace"]] not in each.dependencies] == []


@pytest.mark.parametrize("cluster", ["use1", "usw2"])
def test_prometheus_waits_for_its_storage_class(cluster):
    held = _below(cluster)
    storage = _named(held, "-monitoring-class")
    assert storage.urn in _named(held, "kube-prometheus-stack-chart").dependencies
    assert storage.inputs["provisioner"] == "ebs.csi.aws.com"


def test_each_chart_has_its_own_namespace_whose_level_allows_host_access():
    spaces = {
        each.inputs["metadata"]["name"]: each.inputs["metadata"]["labels"]
        for each in _below("usw2").values()
        if each.type.endswith(":Namespace")
    }
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    assert spaces == {"monitoring": level, "dcgm-exporter": level}


def test_the_operators_release_has_the_counters_and_the_engine_of_the_nodes():
    (operator,) = (each for each in recorded(STACK).resources if each.type == RELEASE and each.inputs["name"] == "gpu-operator")
    exporter = operator.inputs["values"]["dcgmExporter"]
    assert "DCGM_EXP_XID_ERRORS_COUNT" in exporter["config"]["data"]
    assert exporter["hostNetwork"] is True
