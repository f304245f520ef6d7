"""monitoring-complete: monitors that select nothing, exporters that are read twice, and alerts without a runbook."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.loading.config import load
from fleet.render.monitoring.objects import monitoring_objects
from policies.rules.monitoring_complete import RULE
from tests.builders import cluster, config
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, Verdict, changed, config_of, judge, said
from tests.policies.suite import Suite

POD = "kubernetes:monitoring.coreos.com/v1:PodMonitor"
SERVICE = "kubernetes:monitoring.coreos.com/v1:ServiceMonitor"
RULES = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"

MONITOR: dict[str, Any] = {
    "metadata": {"name": "dcgm", "namespace": "monitoring"},
    "spec": {
        "namespaceSelector": {"matchNames": ["gpu-operator"]},
        "selector": {"matchLabels": {"app": "nvidia-dcgm-exporter"}},
        "podMetricsEndpoints": [{"port": "metrics", "interval": "15s"}],
    },
}
OF_SERVICES = {
    "metadata": {"name": "kueue"},
    "spec": {
        "namespaceSelector": {"any": True},
        "selector": {"matchLabels": {"app.kubernetes.io/name": "kueue"}},
        "endpoints": [{"targetPort": 8443}],
    },
}
ALERTS: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {
        "groups": [
            {
                "name": "gpu",
                "rules": [
                    {"record": "gpu_ci:jobs_waiting", "expr": "1"},
                    {
                        "alert": "GpuCiIdle",
                        "expr": "1",
                        "labels": {"severity": "warning"},
                        "annotations": {"runbook_url": "https://example.com/runbook"},
                    },
                ],
            }
        ]
    },
}
ENDPOINT = ("spec", "podMetricsEndpoints", 0)
ALERT = ("spec", "groups", 0, "rules", 1)

NOWHERE = (
    "spec.namespaceSelector names no namespace, so the monitor selects only in its own; write the namespace of the targets in "
    "matchNames"
)
PORT = "spec.podMetricsEndpoints[0] names no port, so it selects nothing; write the name of the target's port in port"
SERVICE_PORT = "spec.endpoints[0] names no port, so it selects nothing; write the name of the target's port in port"
SEVERITY = "spec.groups[0].rules[1].labels.severity is not set: the alert has no urgency; write critical, warning or info"
RUNBOOK = "spec.groups[0].rules[1].annotations.runbook_url is not set; write the URL of what to do about the alert"


def interval(found: str, most: int = 15) -> str:
    return (
        f"spec.podMetricsEndpoints[0].interval is {found}: scrape a DCGM exporter every {most}s or more often; write {most}s, "
        f"or raise {config_of(RULE.id, 'maxIntervalSeconds')}"
    )


@pytest.mark.parametrize("every", ["15s", "5s", "1500ms", "10s500ms"])
def test_an_exporter_is_scraped_as_often_as_it_reads(every: str) -> None:
    assert judge(RULE, POD, changed(MONITOR, *ENDPOINT, "interval", every)) == CLEAN


@pytest.mark.parametrize("every", ["16s", "1m", "0s", "15", "often"])
def test_an_exporter_that_is_scraped_too_seldom_is_reported(every: str) -> None:
    assert judge(RULE, POD, changed(MONITOR, *ENDPOINT, "interval", every)) == said(interval(f'"{every}"'))


def test_other_targets_choose_their_interval() -> None:
    other = changed(MONITOR, "spec", "selector", "matchLabels", {"app": "kueue"})
    assert judge(RULE, POD, changed(other, *ENDPOINT, "interval", "1m")) == CLEAN


def test_the_pod_monitor_of_seed_004_selects_nothing() -> None:
    """It is in namespace monitoring, and the exporter in gpu-operator."""
    assert judge(RULE, POD, changed(MONITOR, "spec", "namespaceSelector", REMOVE)) == said(NOWHERE)


@pytest.mark.parametrize(
    ("labels", "verdict"),
    [
        ({"app.kubernetes.io/managed-by": "Helm", "app": "nvidia-dcgm-exporter", "release": "x"}, CLEAN),
        ({"app.kubernetes.io/managed-by": "Helm", "app": "monitors"}, said(NOWHERE)),
        ({"app.kubernetes.io/managed-by": "Pulumi", "app": "nvidia-dcgm-exporter"}, said(NOWHERE)),
    ],
)
def test_a_monitor_that_a_chart_makes_beside_its_target_needs_no_namespace(labels: dict[str, str], verdict: Verdict) -> None:
    alone = changed(MONITOR, "spec", "namespaceSelector", REMOVE)
    assert judge(RULE, POD, changed(alone, "metadata", "labels", labels)) == verdict
    nothing = changed(changed(alone, "metadata", "labels", labels), "spec", "selector", {"matchLabels": {}})
    assert judge(RULE, POD, nothing) == said(NOWHERE), "it selects every pod of its namespace"


def test_the_programs_own_monitors_pass() -> None:
    held = load(config(clusters={"usw2": cluster(monitoring={"prometheus": "install"})}))
    found = [each for each in monitoring_objects(held, "usw2") if each["apiVersion"] == "monitoring.coreos.com/v1"]
    assert found
    for each in found:
        assert judge(RULE, f"kubernetes:{each['apiVersion']}:{each['kind']}", each) == CLEAN, each["metadata"]["name"]


SUITE = Suite(
    RULE,
    passing=(Case(POD, MONITOR), Case(SERVICE, OF_SERVICES), Case(RULES, ALERTS)),
    violating=(
        Case(POD, changed(MONITOR, "spec", "namespaceSelector", {"matchNames": []}), (NOWHERE,)),
        Case(POD, changed(MONITOR, *ENDPOINT, "port", REMOVE), (PORT,)),
        Case(POD, changed(MONITOR, *ENDPOINT, "interval", REMOVE), (interval("not set"),)),
        Case(POD, MONITOR, (interval('"15s"', 10),), config={"maxIntervalSeconds": 10}),
        Case(SERVICE, changed(OF_SERVICES, "spec", "endpoints", 0, {}), (SERVICE_PORT,)),
        Case(RULES, changed(ALERTS, *ALERT, "labels", REMOVE), (SEVERITY,)),
        Case(RULES, changed(ALERTS, *ALERT, "annotations", {}), (RUNBOOK,)),
    ),
)
