"""Grafana's dashboards: every query is parsed, names metrics that exist, and returns series of a local Prometheus.

The queries are those of the built JSON. No test draws a panel, because no registry here has Grafana.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fleet.loading.config import load
from fleet.render.monitoring.dashboards import dashboard_objects, dashboards
from fleet.render.monitoring.rules import rule_groups
from fleet.render.monitoring.rules.cost import cost_groups
from tests.builders import (
    ROOT,
    cluster,
    config,
    existing_context,
    existing_eks,
    oke_cluster,
    talos_cluster,
    vm_per_job,
)
from tests.monitoring import sample_series
from tests.monitoring.dashboard_fleet import CLUSTER, Query, built, monitored, panels, queries, selectors, variable_queries
from tests.monitoring.local_prometheus import MISSING, Server, serving
from tests.monitoring.metrics import SERIES

INSTALL = {"prometheus": "install"}
CLUSTERS = {
    "eks": cluster(monitoring=INSTALL),
    "oke": oke_cluster(monitoring=INSTALL),
    "oke with machines alone": oke_cluster(monitoring=INSTALL, pools={}, runners={"a10-vm": vm_per_job()}),
    "talos": talos_cluster(monitoring=INSTALL | {"storageClass": "local-path"}),
    "existing EKS": existing_eks(monitoring={"prometheus": "existing", "namespace": "metrics"}),
    "existing context": existing_context() | {"monitoring": INSTALL | {"storageClass": "local-path"}},
}
RECORDED = {
    "gpu_ci:queue_seconds:p50": "scale_set",
    "gpu_ci:queue_seconds:p95": "scale_set",
    "gpu_ci:start_phase_seconds:p50": "scale_set phase",
    "gpu_ci:start_phase_seconds:p95": "scale_set phase",
    "gpu_ci:starts": "scale_set node",
    "gpu_ci:jobs_waiting": "scale_set",
    "gpu_ci:jobs_running": "scale_set",
    "gpu_ci:gpu_utilization": "kubernetes_node gpu pool exported_namespace exported_pod",
    "gpu_ci:gpu_memory_used_ratio": "kubernetes_node gpu pool exported_namespace exported_pod",
    "gpu_ci:gpu_allocated": "kubernetes_node gpu pool exported_namespace exported_pod",
    "gpu_ci:node_pool": "kubernetes_node pool",
    "gpu_ci:node_gpus": "kubernetes_node pool",
    "gpu_ci:node_usd_per_hour": "node pool instance_type capacity",
    "gpu_ci:job_usd_per_hour": "namespace repository scale_set pool",
    "gpu_ci:team_usd_per_hour": "team",
    "gpu_ci:start_usd_per_hour": "scale_set pool",
    "gpu_ci:idle_usd_per_hour": "pool",
    "gpu_ci:shared_usd_per_hour": "",
    "gpu_ci:planned_idle_usd_per_hour": "",
    "gpu_ci:planned_worst_usd_per_hour": "",
}
"""The labels of each recording rule."""
ADDED = {
    "arc-listener": "scale_set exported_namespace",
    "dcgm-exporter": "kubernetes_node exported_namespace exported_pod exported_container",
    "kube-state-metrics": "label_gpu_ci_pool label_node_kubernetes_io_instance_type",
}
"""The labels that our monitors and settings add to the series of an exporter. Each series also has job and instance."""


@cache
def metrics() -> dict[str, set[str]]:
    """The labels of every metric of the exporters, by its name."""
    return {
        name: {"job", "instance", *known.labels.split(), *ADDED.get(known.exporter, "").split()} for name, known in SERIES.items()
    } | {name: set(labels.split()) for name, labels in RECORDED.items()}


def used() -> set[str]:
    """Every metric that a dashboard reads."""
    return {name for query in [*queries(), *variable_queries()] for name, _ in selectors(query)}


# -- the queries ---------------------------------------------------------------------------------------------------------


def test_a_query_that_is_no_promql_is_found():
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        list(selectors(Query("board", "panel", "", "sum by (gpu (up)")))


def test_every_recorded_name_is_one_of_the_rules():
    groups = [*rule_groups(monitored(), CLUSTER), *cost_groups(monitored(), CLUSTER)]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    assert {name for name in used() if ":" in name} <= recorded
    assert set(RECORDED) <= recorded


def test_every_metric_is_one_of_an_exporter_and_has_the_labels_that_a_query_matches():
    for query in [*queries(), *variable_queries()]:
        for name, labels in selectors(query):
            assert name in metrics(), query.place
            assert labels <= metrics()[name], query.place


def test_the_sample_series_have_the_labels_of_their_exporters():
    """Otherwise a query could return series here and none in a cluster."""
    for name, labels, _ in sample_series.series():
        assert set(labels) <= metrics()[name], name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if MISSING:
        pytest.skip(f"not on PATH: {', '.join(MISSING)}")
    with serving(sample_series.text(), sample_series.END, tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.mark.prometheus
def test_every_query_returns_series_with_the_labels_of_its_legend(server):
    for query in [*queries(), *variable_queries()]:
        found = [labels for labels, _ in server.query(query.text) if all(labels.get(label) for label in query.labels)]
        assert found, query.place
    assert server.query("gpu_ci:no_such_record") == []


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("panel", "chosen", "expected"),
    [
        ("Missing GPUs", {}, {sample_series.A: 0, sample_series.B: 1, sample_series.C: 4}),
        ("Missing GPUs", {"node": sample_series.B}, {sample_series.B: 1}),
        ("Rejected pods", {}, {sample_series.A: 0, sample_series.B: 1}),
        ("GPU nodes", {}, {"": 3}),
        ("Cost now", {}, {"": 4.75}),
        ("Queue time p95 as a share of the objective", {}, {"gpu-t4": 1.5, "gpu-t4-b": 1.5, "gpu-a10g": 0.5}),
        ("Start time by phase, p50", {}, {"boot": 60, "pull": 240}),
        ("Start time by runner class", {}, {"gpu-t4": 360, "gpu-t4-b": 360, "gpu-a10g": 360}),
        ("Starts that waited for a node", {}, {"gpu-t4": 0.25, "gpu-t4-b": 0.25, "gpu-a10g": 0.25}),
        ("Framebuffer memory in use", {"by": "pool"}, {"t4": 9000, "a10g": 27000}),
        ("Framebuffer memory in use", {"by": "pool", "pool": "t4"}, {"t4": 9000}),
        ("Framebuffer memory in use", {"by": "scale_set"}, {"": 18000, "gpu-t4": 9000, "gpu-a10g": 9000}),
        ("Framebuffer memory in use", {"by": "scale_set", "job": "gpu-t4-.*"}, {"gpu-t4": 9000}),
        ("XID errors", {}, {"94": 1}),
        ("Throttling", {"node": sample_series.A}, {"sw_thermal": 2}),
        ("Jobs by team", {}, {"default": 0.6, "team-b": 0.6, "vision": 0.2, "other": 0}),
        ("Jobs by runner class", {}, {"gpu-t4": 0.6, "gpu-a10g": 0.6}),
        ("Jobs by repository", {}, {"example/vision": 0.6, "example/speech": 0.6}),
    ],
)
def test_a_panel_shows_what_the_samples_say(server, panel, chosen, expected):
    """The last label of the legend distinguishes the series."""
    found = {}
    for query in queries(**chosen):
        if query.panel == panel:
            for labels, value in server.query(query.text):
                found[labels.get(query.labels[-1], "") if query.labels else ""] = pytest.approx(value)
    assert found == expected


@pytest.mark.prometheus
def test_the_cost_of_the_shown_time_is_the_price_times_the_hours(server):
    (query,) = [each for each in queries() if each.board == "gpu-ci-cost" and each.panel == "Jobs in the shown time"]
    shown = {labels["namespace"]: value for labels, value in server.query(query.text)}
    # An hour at these prices. Prometheus 2 reads 61 samples of it, 3 reads 60.
    assert shown == pytest.approx({"runners-gpu-t4": 0.6, "runners-gpu-a10g": 0.6, "vision": 0.2}, rel=0.02)


@pytest.mark.prometheus
def test_the_table_of_jobs_shows_the_peak_of_the_memory(server):
    shown = {each.legend: [value for _, value in server.query(each.text)] for each in queries() if each.board == "gpu-ci-gpu"}
    assert shown["memory peak"] == [0.9, 0.9]
    assert shown["utilization"] == pytest.approx([0.5, 0.5])


# -- the dashboards ------------------------------------------------------------------------------------------------------


def test_there_is_a_dashboard_for_each_topic():
    assert {uid: board["title"] for uid, board in built().items()} == {
        "gpu-ci-fleet": "GPU CI, fleet: usw2",
        "gpu-ci-gpu": "GPU CI, GPU: usw2",
        "gpu-ci-nodes": "GPU CI, node health: usw2",
        "gpu-ci-cost": "GPU CI, cost: usw2",
    }


def test_the_gpu_dashboard_has_the_content_of_12239_and_what_a_batch_size_needs():
    names = {name for query in queries() if query.board == "gpu-ci-gpu" for name, _ in selectors(query)}
    assert names >= {
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_SM_CLOCK",
        "gpu_ci:gpu_utilization",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "DCGM_FI_DEV_FB_USED",
        "gpu_ci:gpu_memory_used_ratio",
        "DCGM_FI_PROF_SM_ACTIVE",
    }


@pytest.mark.parametrize("kind", CLUSTERS)
def test_every_kind_of_cluster_has_dashboards_that_grafana_can_lay_out(kind):
    boards = dashboards(load(config(clusters={CLUSTER: CLUSTERS[kind]})), CLUSTER)
    assert len(boards) == 4
    for board in boards.values():
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        cells: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            assert panel["targets"], panel["title"]
            place = panel["gridPos"]
            own = set(itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])))
            assert max(x for x, _ in own) < 24, panel["title"]
            assert not own & cells, panel["title"]
            cells |= own


def test_every_panel_says_what_it_shows_and_reads_the_chosen_data_source():
    for uid, panel in panels():
        assert panel["title"], uid
        assert panel["description"].endswith("."), panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}, panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]), panel["title"]


def test_every_chart_shows_its_legend():
    charts = [panel for _, panel in panels() if panel["type"] == "timeseries"]
    assert len(charts) > 20
    assert [panel["title"] for panel in charts if not panel["options"]["legend"]["showLegend"]] == []


def test_each_column_of_a_table_is_named_after_its_query():
    (table,) = [panel for uid, panel in panels() if uid == "gpu-ci-gpu" and panel["type"] == "table"]
    _, organize = (each["options"] for each in table["transformations"])
    shown = {f"Value #{target['refId']}": target["legendFormat"] for target in table["targets"]}
    assert organize["renameByName"] == shown
    assert organize["excludeByName"] == {"Time": True, "Value #Q1": True}, "the first query adds the repository alone"


def test_a_dashboard_offers_the_pools_of_the_fleet():
    variables = {each["name"]: each for each in built()["gpu-ci-gpu"]["templating"]["list"]}
    assert variables["pool"]["query"] == "t4 : t4,a10g : a10g"
    assert variables["by"]["query"] == "pool : pool,runner class : scale_set,job : exported_pod,GPU : kubernetes_node\\, gpu"
    assert variables["by"]["current"]["value"] == "pool"


def test_only_a_cluster_with_queues_has_panels_of_queues():
    assert any("kueue_" in query.text for query in queries())
    boards = dashboards(monitored(queues=None), CLUSTER)
    assert "kueue_" not in json.dumps(boards)


def test_thresholds_are_those_of_the_alerts():
    boards = dashboards(monitored(monitoring=INSTALL | {"alerts": {"temperature": 77}}), CLUSTER)
    (panel,) = [each for each in boards["gpu-ci-nodes"]["panels"] if each["title"] == "Temperature by GPU"]
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == 77


# -- the ConfigMaps ------------------------------------------------------------------------------------------------------


def test_the_sidecar_of_grafana_finds_each_dashboard():
    objects = dashboard_objects(monitored(monitoring=INSTALL | {"prometheus": "existing", "namespace": "metrics"}), CLUSTER)
    assert [each["metadata"]["name"] for each in objects] == list(built())
    for each in objects:
        assert (each["apiVersion"], each["kind"], each["metadata"]["namespace"]) == ("v1", "ConfigMap", "metrics")
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}
        (name, text), *others = each["data"].items()
        assert not others
        assert name == f"{each['metadata']['name']}.json"
        assert json.loads(text)["uid"] == each["metadata"]["name"]
        assert text == json.dumps(json.loads(text), indent=1, sort_keys=True), "a diff shows only what changed"
        assert len(json.dumps(each).encode()) < 2**20, "a ConfigMap has at most 1 MiB"


@cache
def other_process() -> list[str]:
    """What a process of its own prints: a cluster without monitoring, then the dashboards of one with it."""
    program = (
        "import json, sys\n"
        "from fleet.render.monitoring.dashboards import dashboard_objects, dashboards\n"
        "from tests.monitoring.dashboard_fleet import CLUSTER, monitored\n"
        "fleet = monitored(monitoring=None)\n"
        "print(dashboards(fleet, CLUSTER), dashboard_objects(fleet, CLUSTER), 'grafana_foundation_sdk' in sys.modules)\n"
        "print(json.dumps(dashboard_objects(monitored(), CLUSTER)))\n"
    )
    path = os.pathsep.join([str(Path(ROOT)), *filter(None, sys.path)])
    # Its hashes have another seed than those of this process.
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    surroundings = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_processes_write_the_same_bytes():
    assert other_process()[1] == json.dumps(dashboard_objects(monitored(), CLUSTER))


def test_a_cluster_without_monitoring_has_none_and_does_not_load_the_sdk():
    assert other_process()[0] == "{} () False"
