"""CloudWatch's add-on: it sends the metrics of the exporter that the cluster has, and starts none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.charts.cloudwatch import CLOUDWATCH_PODS, cloudwatch_values
from fleet.charts.dcgm_exporter import DCGM_EXPORTER
from fleet.loading.config import load
from fleet.prove import remarks
from fleet.prove.launchers import system_room
from fleet.prove.placement import pool_hosts
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed
from fleet.render.monitoring.objects import targets
from tests.builders import cluster, config
from tests.cases import cases

SELECTOR = {"gpu-ci/pool": "system"}
VALUES = cloudwatch_values(SELECTOR)


def fleet(*, cloudwatch: bool, **more: Any) -> Fleet:
    own = cluster(monitoring={"prometheus": "existing", "cloudwatch": cloudwatch}, **more)
    return load(config(clusters={"usw2": own}))


def scrape() -> dict[str, Any]:
    receivers = VALUES["agents"][0]["otelConfig"]["receivers"]
    [found] = receivers["prometheus/gpu_ci_dcgm"]["config"]["scrape_configs"]
    return dict(found)


@cases("part", ["dcgmExporter", "neuronMonitor", "containerInsights", "applicationSignals", "containerLogs"])
def test_the_add_on_starts_no_exporter_and_sends_no_logs(part: str) -> None:
    assert VALUES[part] == {"enabled": False}
    assert VALUES["otelContainerInsights"] == {"enabled": True, "logs": {"enabled": False}}


@pytest.mark.parametrize("enablement", ["device-plugin", "gpu-operator"])
def test_its_agents_scrape_the_one_exporter_that_prometheus_scrapes_too(enablement: str) -> None:
    held = fleet(cloudwatch=True, enablement=enablement).clusters["usw2"]
    charts = {chart.name for chart in installed(held, "usw2", load(config()).github)}
    [exporter] = [each for each in targets(held, charts) if each.name == DCGM_EXPORTER]
    (discovery,) = scrape()["kubernetes_sd_configs"]
    assert exporter.namespace in discovery["namespaces"]["names"]
    labels = [exporter.labels.get(key, "") for key in ("app.kubernetes.io/name", "app")]
    keep = {tuple(each["source_labels"]): each["regex"] for each in scrape()["relabel_configs"]}
    [of_labels] = [regex for names, regex in keep.items() if len(names) == 2]
    assert re.fullmatch(of_labels, ";".join(labels))
    assert not re.fullmatch(of_labels, "dcgm-other;another")
    assert keep["__meta_kubernetes_pod_container_port_name",] == exporter.port


def test_an_agent_scrapes_the_exporter_of_its_own_node_alone() -> None:
    assert {"source_labels": ["__meta_kubernetes_pod_node_name"], "regex": "${env:K8S_NODE_NAME}", "action": "keep"} in scrape()[
        "relabel_configs"
    ]


def test_pods_that_run_once_are_on_the_system_pool() -> None:
    agent, scraper = VALUES["agents"]
    assert "nodeSelector" not in agent
    assert [each["nodeSelector"] for each in (scraper, VALUES["manager"], VALUES["kubeStateMetrics"])] == [SELECTOR] * 3


def test_placement_and_the_system_pool_count_its_pods() -> None:
    plain, more = fleet(cloudwatch=False), fleet(cloudwatch=True)

    def on_gpu_nodes(held: Fleet) -> tuple[int, int]:
        pods = pool_hosts(held.clusters["usw2"])["t4"].daemonsets
        return sum(pod.cpu for pod in pods), sum(pod.memory for pod in pods)

    assert [after - before for before, after in zip(on_gpu_nodes(plain), on_gpu_nodes(more), strict=True)] == [300, 158]

    def free(held: Fleet) -> int:
        return sum(node.cpu for node in system_room("usw2", held.clusters["usw2"], held.github) or [])

    once = sum(pod.cpu for pod in CLOUDWATCH_PODS if pod.on == "system pool")
    assert free(plain) - free(more) == once + 2 * 300, "two system nodes"


def test_the_plan_says_that_the_bill_has_no_price_of_it() -> None:
    said = "\n".join(remarks.monitoring(fleet(cloudwatch=True)))
    assert "the bill does not have what CloudWatch charges" in said
    assert "CloudWatch" not in "\n".join(remarks.monitoring(fleet(cloudwatch=False)))
