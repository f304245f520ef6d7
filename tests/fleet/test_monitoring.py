"""Monitoring: who scrapes what on each kind of cluster, one exporter and one engine per GPU node, and what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from fleet.charts.chart import Chart
from fleet.charts.dcgm_exporter import COUNTERS
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import GPU_PRESENT_LABEL
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.placement import pool_hosts
from fleet.prove.remarks import monitoring
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed, monitoring_charts
from fleet.render.monitoring.objects import monitoring_objects, storage_class
from tests.builders import (
    ROOT,
    cluster,
    config,
    existing_context,
    existing_eks,
    gitops,
    oke_cluster,
    read_stack,
    reference,
    talos_cluster,
)
from tests.cases import cases
from tests.fleet.values import asks
from tests.policies.rendered import of_kind, published, render

DAY = date(2026, 11, 23)
INSTALL: dict[str, Any] = {"prometheus": "install"}
OWN: dict[str, Any] = {"prometheus": "existing", "namespace": "observe", "labels": {"release": "prometheus"}}
QUEUES = {"teams": {"research": {"namespaces": ["research"], "quotas": [{"pool": "t4", "nominal": 2}]}}}


def fleet(**clusters: Any) -> Fleet:
    return load(config(clusters=clusters))


EKS = fleet(
    operator=cluster(monitoring=INSTALL, enablement="gpu-operator", queues=QUEUES),
)
"""With the GPU operator."""
PLUGIN = fleet(plugin=cluster(monitoring=INSTALL))
OKE = fleet(oke=oke_cluster(monitoring=INSTALL))
HOME = fleet(home=talos_cluster(monitoring=INSTALL | {"storageClass": "local-path"}, delivery="argocd"))
FOUND = fleet(found=existing_eks(monitoring=OWN, installed=["cluster-autoscaler", "eks-node-monitoring-agent"]))
LAB = fleet(lab=existing_context() | {"monitoring": OWN})
ALL = {next(iter(each.clusters)): each for each in (EKS, PLUGIN, OKE, HOME, FOUND, LAB)}
each_cluster = cases("name", ALL)


@cache
def charts(name: str) -> dict[str, Chart]:
    held = ALL[name]
    return {chart.name: chart for chart in installed(held.clusters[name], f"gpu-ci-test-{name}", held.github)}


@cache
def all_objects(name: str) -> list[Manifest]:
    return list(monitoring_objects(ALL[name], name))


def objects(name: str, *kinds: str) -> list[Manifest]:
    return [each for each in all_objects(name) if each["kind"] in kinds]


def endpoints(monitor: Manifest) -> list[Manifest]:
    found: list[Manifest] = monitor["spec"]["podMetricsEndpoints" if monitor["kind"] == "PodMonitor" else "endpoints"]
    return found


MONITORS = ("PodMonitor", "ServiceMonitor")
ARC = {"gpu-ci-arc-controller", "gpu-ci-arc-listeners"}
EXPORTER = "gpu-ci-dcgm-exporter"


# -- what scrapes what -------------------------------------------------------------------------------------------------


@cases(
    ("name", "scraped"),
    [
        ("operator", {*ARC, EXPORTER, "gpu-ci-kueue", "gpu-ci-cluster-autoscaler"}),
        ("plugin", {*ARC, EXPORTER, "gpu-ci-cluster-autoscaler"}),
        ("oke", {*ARC, EXPORTER}),
        ("home", {*ARC, EXPORTER, "gpu-ci-argo-cd"}),
        ("found", {*ARC, EXPORTER}),
        ("lab", {*ARC, EXPORTER}),
    ],
)
def test_each_cluster_has_a_monitor_for_what_runs_there_and_for_nothing_else(name: str, scraped: set[str]) -> None:
    assert {each["metadata"]["name"] for each in objects(name, *MONITORS)} == scraped


@each_cluster
def test_every_monitor_names_namespace_port_and_labels_and_scrapes_every_15_seconds(name: str) -> None:
    for each in objects(name, *MONITORS):
        spec = each["spec"]
        assert spec["selector"]["matchLabels"]
        assert len(spec["namespaceSelector"]["matchNames"]) == 1
        assert [(bool(held["port"]), held["interval"]) for held in endpoints(each)] == [(True, "15s")]


@each_cluster
def test_a_prometheus_of_the_owner_finds_the_monitors_by_its_label_and_in_its_namespace(name: str) -> None:
    labels, namespace = ({"release": "prometheus"}, "observe") if name in ("found", "lab") else ({}, "monitoring")
    for each in objects(name, *MONITORS):
        assert (each["metadata"].get("labels", {}), each["metadata"]["namespace"]) == (labels, namespace)


def test_queue_metrics_get_the_name_of_their_runner_set_and_gpu_metrics_that_of_their_node() -> None:
    copied = {
        each["metadata"]["name"]: [(held["sourceLabels"], held["targetLabel"]) for held in endpoints(each)[0]["relabelings"]]
        for each in objects("plugin", *MONITORS)
        if "relabelings" in endpoints(each)[0]
    }
    assert copied == {
        "gpu-ci-arc-listeners": [(["__meta_kubernetes_pod_label_actions_github_com_scale_set_namespace"], "scale_set")],
        EXPORTER: [(["__meta_kubernetes_pod_node_name"], "kubernetes_node")],
    }


@cases("honor", ["honorLabels"])
@each_cluster
def test_a_job_s_pod_stays_exported_pod(name: str, honor: str) -> None:
    """With honorLabels the series of an idle GPU would name the exporter's own pod, and look allocated."""
    assert not any(honor in held for each in objects(name, *MONITORS) for held in endpoints(each))


@each_cluster
def test_without_monitoring_a_cluster_has_no_object_and_no_chart_of_it(name: str) -> None:
    plain = ALL[name].clusters[name].model_copy(update={"monitoring": None})
    without = ALL[name].model_copy(update={"clusters": {name: plain}})
    assert monitoring_objects(without, name) == []
    assert list(monitoring_charts(plain, name)) == []


@each_cluster
@cases("minor", ["1.34", "1.36"])
def test_only_prometheus_reaches_pods_that_serve_nothing_but_metrics(name: str, minor: str) -> None:
    selected = {each["metadata"]["name"]: each["spec"] for each in objects(name, "PodMonitor")}
    policies = objects(name, "NetworkPolicy")
    for each in policies:
        kubernetes_validate.validate(each, minor, strict=True)
        monitor = selected[each["metadata"]["name"].removesuffix("-metrics")]
        assert each["spec"]["podSelector"] == monitor["selector"], "the pods that are scraped"
        assert [each["metadata"]["namespace"]] == monitor["namespaceSelector"]["matchNames"]
        (rule,) = each["spec"]["ingress"]
        home = objects(name, *MONITORS)[0]["metadata"]["namespace"]
        assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home}}}]
    wanted = {EXPORTER, *ARC}
    assert {each["metadata"]["name"].removesuffix("-metrics") for each in policies} == wanted


def test_an_owner_s_controller_gets_no_network_policy() -> None:
    controller = {"namespace": "arc", "serviceAccount": "arc"}
    own = existing_eks(
        monitoring=OWN, installed=["arc-controller", "gpu-operator"], controller=controller, enablement="gpu-operator"
    )
    found = monitoring_objects(fleet(own=own), "own")
    assert [each for each in found if each["kind"] == "NetworkPolicy"] == []
    assert EXPORTER not in {each["metadata"]["name"] for each in found}, "its operator's exporter is the owner's"


def test_the_plan_says_what_it_cannot_see_of_an_existing_cluster() -> None:
    controller = {"namespace": "arc", "serviceAccount": "arc"}
    own = existing_eks(monitoring=OWN, installed=["arc-controller"], controller=controller)
    said = [remark for remark in fleet(own=own).clusters["own"].remarks if remark.startswith("monitoring: undeterminable")]
    assert ["two DCGM engines" in said[1], "controller in arc" in said[0]] == [True, True]
    agent = existing_eks(monitoring=OWN, installed=["eks-node-monitoring-agent"])
    assert not any(remark.startswith("monitoring:") for remark in fleet(own=agent).clusters["own"].remarks)


# -- one exporter, one engine ------------------------------------------------------------------------------------------


@each_cluster
def test_each_gpu_node_has_exactly_one_exporter(name: str) -> None:
    found = charts(name)
    by_operator = "gpu-operator" in found and found["gpu-operator"].values["dcgmExporter"]["enabled"]
    assert by_operator is not ("dcgm-exporter" in found)


def test_an_exporter_of_the_owner_is_not_installed_again() -> None:
    own = existing_eks(monitoring=OWN, installed=["dcgm-exporter"])
    assert list(monitoring_charts(fleet(own=own).clusters["own"], "own")) == []


@cases(
    ("name", "engine"),
    [("plugin", "$(HOST_IP):5555"), ("found", "$(HOST_IP):5555"), ("oke", ""), ("lab", "")],
)
def test_the_exporters_chart_uses_the_engine_of_the_node_monitoring_agent_where_there_is_one(name: str, engine: str) -> None:
    environment = {each["name"]: each.get("value", "") for each in charts(name)["dcgm-exporter"].values["extraEnv"]}
    assert environment.get("DCGM_REMOTE_HOSTENGINE_INFO", "") == engine
    assert ("HOST_IP" in environment) is bool(engine)
    names = list(environment)
    assert not engine or names.index("HOST_IP") < names.index("DCGM_REMOTE_HOSTENGINE_INFO"), "Kubernetes replaces earlier ones"


@pytest.mark.parametrize(("name", "engine"), [("operator", "localhost:5555"), ("home", None)])
def test_the_operators_exporter_uses_the_agents_engine_over_the_nodes_network(name: str, engine: str | None) -> None:
    exporter = charts(name)["gpu-operator"].values["dcgmExporter"]
    environment = {each["name"]: each["value"] for each in exporter["env"]}
    assert environment.get("DCGM_REMOTE_HOSTENGINE_INFO") == engine
    assert exporter.get("hostNetwork", False) is (engine is not None), "only there localhost is the node"


@cases("name", ["operator", "plugin", "oke", "home"])
def test_every_exporter_reads_the_same_counters_every_15_seconds(name: str) -> None:
    found = charts(name)
    if "dcgm-exporter" in found:
        values = found["dcgm-exporter"].values
        counters, environment = values["customMetrics"], values["extraEnv"]
    else:
        values = found["gpu-operator"].values["dcgmExporter"]
        counters, environment = values["config"]["data"], values["env"]
        assert values["config"]["create"] is True
        assert re.fullmatch(r"gpu-ci-counters-[0-9a-f]{10}", values["config"]["name"]), "a changed list needs new pods"
    assert counters == COUNTERS
    assert {"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"} in environment


def test_the_operators_own_monitor_does_not_scrape_a_second_time() -> None:
    wanted = cluster(monitoring=INSTALL, enablement="gpu-operator", operator={"serviceMonitor": True})
    held = fleet(usw2=wanted)
    (operator,) = (each for each in installed(held.clusters["usw2"], "x", held.github) if each.name == "gpu-operator")
    assert operator.values["dcgmExporter"]["serviceMonitor"] == {"enabled": False}


COUNTER = re.compile(r"(DCGM_(?:FI|EXP)_[A-Z0-9_]+), (gauge|counter|label), [^,\n]+")


def test_counters_are_of_the_exporters_format_each_once() -> None:
    lines = [line for line in COUNTERS.splitlines() if not line.startswith("#")]
    found = [COUNTER.fullmatch(line) for line in lines]
    assert [line for line, match in zip(lines, found, strict=True) if match is None] == []
    names = [match[1] for match in found if match]
    assert len(set(names)) == len(names)
    assert {"DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_CLOCK_EVENTS_COUNT"} <= set(names)
    assert {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_XID_ERRORS"} <= set(names)


@pytest.mark.reference
def test_counters_are_fields_that_the_exporter_lists() -> None:
    listed = {
        match[0]
        for file in ("default-counters.csv", "dcp-metrics-included.csv")
        for match in re.finditer(r"DCGM_[A-Z0-9_]+", (reference("dcgm") / file).read_text(encoding="utf-8"))
    }
    assert set(re.findall(r"^DCGM_[A-Z0-9_]+", COUNTERS, re.MULTILINE)) - listed == set()


@pytest.mark.parametrize("name", ["plugin", "oke", "found"])
def test_the_exporter_finds_gpu_nodes_and_has_memory_for_eight_gpus(name: str) -> None:
    chart = charts(name)["dcgm-exporter"]
    assert chart.values["nodeSelector"] == {GPU_PRESENT_LABEL: "true"}
    assert chart.values["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    (pod,) = chart.pods
    assert (asks(chart.values["resources"]), pod.on) == ((pod.cpu, pod.memory), "GPU nodes")
    host = pool_hosts(ALL[name].clusters[name])
    assert all("dcgm-exporter" in [each.name for each in found.daemonsets] for found in host.values()), "placement counts it"


# -- Prometheus --------------------------------------------------------------------------------------------------------


def prometheus(name: str) -> dict[str, Any]:
    found: dict[str, Any] = charts(name)["kube-prometheus-stack"].values
    return found


@cases("name", ["operator", "plugin", "oke", "home"])
def test_an_installed_prometheus_selects_every_monitor_and_rule(name: str) -> None:
    spec = prometheus(name)["prometheus"]["prometheusSpec"]
    kinds = ("serviceMonitor", "podMonitor", "rule", "probe", "scrapeConfig")
    assert [spec[f"{kind}SelectorNilUsesHelmValues"] for kind in kinds] == [False] * 5
    assert spec["externalLabels"] == {"cluster": f"gpu-ci-test-{name}"}


@cases("name", ["operator", "plugin", "oke", "home"])
def test_samples_leave_room_on_the_volume(name: str) -> None:
    spec = prometheus(name)["prometheus"]["prometheusSpec"]
    assert (spec["retention"], spec["retentionSize"]) == ("1296000s", "43520MiB")
    assert int(spec["retentionSize"].removesuffix("MiB")) < 50 * 1024
    claim = spec["storageSpec"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"] == {"requests": {"storage": "50Gi"}}
    assert claim["storageClassName"] == ("local-path" if name == "home" else "gpu-ci-prometheus")


def test_an_existing_oke_cluster_uses_its_default_class() -> None:
    described = read_stack(ROOT / "examples" / "Pulumi.existing-oke.yaml")
    (settings,) = described["clusters"].values()
    settings["monitoring"] = INSTALL
    (own,) = load(described).clusters.values()
    (chart, _) = monitoring_charts(own, "own")
    claim = chart.values["prometheus"]["prometheusSpec"]["storageSpec"]["volumeClaimTemplate"]["spec"]
    assert "storageClassName" not in claim


def test_eks_gets_a_class_of_encrypted_gp3_volumes_and_its_driver() -> None:
    held = PLUGIN.clusters["plugin"]
    assert held.drivers == ("aws-ebs-csi-driver",)
    found = storage_class(held, {"gpu-ci/stack": "test"})
    kubernetes_validate.validate(found, "1.34", strict=True)
    assert found["parameters"]["type"] == "gp3"
    assert found["parameters"]["encrypted"] == "true"
    assert found["parameters"]["tagSpecification_1"] == "gpu-ci/stack=test"
    assert storage_class(OKE.clusters["oke"], {})["provisioner"] == "blockvolume.csi.oraclecloud.com"
    named = fleet(usw2=cluster(monitoring=INSTALL | {"storageClass": "cache-models"}))
    assert named.clusters["usw2"].drivers == (), "the owner of another class has its driver"


def test_a_system_pool_with_fewer_nodes_than_zones_may_leave_prometheus_without_its_volume() -> None:
    def said(least: int) -> list[str]:
        wanted = cluster(
            monitoring=INSTALL, zones=["us-west-2a", "us-west-2b", "us-west-2c"], system={"nodes": {"min": least, "max": 4}}
        )
        return [remark for remark in fleet(usw2=wanted).clusters["usw2"].remarks if remark.startswith("monitoring:")]

    assert said(3) == []
    (remark,) = said(2)
    assert remark.endswith("raise system.nodes.min to 3")


def test_state_metrics_have_the_labels_that_rules_join_on_and_the_repository_of_each_runner() -> None:
    values = prometheus("plugin")["kube-state-metrics"]
    assert values["metricLabelsAllowlist"] == [
        "nodes=[gpu-ci/cluster,gpu-ci/pool,gpu-ci/capacity,node.kubernetes.io/instance-type]",
        "pods=[actions.github.com/scale-set-name,runner-pod]",
    ]
    runners, _ = values["customResourceState"]["config"]["spec"]["resources"]
    assert runners["metrics"][0]["each"]["info"] == {"path": ["status"], "labelsFromPath": {"repository": ["jobRepositoryName"]}}
    granted = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in values["rbac"]["extraRules"]}
    assert granted[(runners["groupVersionKind"]["group"], "ephemeralrunners")] == ["list", "watch"]
    assert ("apiextensions.k8s.io", "customresourcedefinitions") in granted


def test_nothing_of_monitoring_but_its_operator_may_read_secrets() -> None:
    values = prometheus("plugin")["kube-state-metrics"]
    assert not {"secrets", "configmaps"} & set(values["collectors"]), "each collector is a right to list its kind"
    assert {"nodes", "pods", "jobs"} <= set(values["collectors"])


# -- price and room ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(("name", "usd"), [("plugin", 50 * 0.08 / 730), ("oke", 50 * 0.042 / 730)])
def test_the_bill_has_prometheus_s_volume_also_when_idle(name: str, usd: float) -> None:
    (line,) = (line for line in bill(ALL[name], DAY) if line.item == "monitoring")
    assert line.idle.usd == line.worst.usd == pytest.approx(usd, rel=1e-3)


@pytest.mark.parametrize("name", ["home", "found", "lab"])
def test_a_volume_without_a_known_price_and_a_prometheus_of_the_owner_are_not_in_the_bill(name: str) -> None:
    assert [line for line in bill(ALL[name], DAY) if line.item == "monitoring"] == []


def test_the_plan_says_what_monitoring_takes_of_nodes() -> None:
    assert list(monitoring(PLUGIN)) == [
        "plugin: monitoring requests 600m CPU and 1920Mi of the system pool, 10m CPU and 32Mi of each node, "
        "100m CPU and 512Mi of each GPU node"
    ]
    assert list(monitoring(EKS)) == [
        "operator: monitoring requests 600m CPU and 1920Mi of the system pool, 10m CPU and 32Mi of each node"
    ], "the operator has an exporter with and without monitoring"


def test_a_system_pool_that_is_too_small_for_monitoring_is_reported() -> None:
    one, two = (
        fleet(
            usw2=cluster(
                monitoring=INSTALL,
                enablement="gpu-operator",
                queues=QUEUES,
                delivery="argocd",
                gitops=gitops(),
                system={"nodes": {"min": least, "max": 4}},
            )
        )
        for least in (1, 2)
    )
    (remark,) = monitoring(one)
    assert remark.endswith("do not fit on the system pool at its smallest size, so raise system.nodes")
    assert "raise" not in next(monitoring(two))


# -- against the published charts --------------------------------------------------------------------------------------


@pytest.mark.reference
@each_cluster
def test_every_object_is_one_that_the_operators_kinds_take(name: str) -> None:
    for each in objects(name, *MONITORS):
        path = reference(f"schemas/monitoring.coreos.com/{each['kind'].lower()}_v1.json")
        jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8"))).validate(each)


def _pods(manifests: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """(labels, names of ports) of each kind of pod."""
    for each in manifests:
        if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet"):
            template = each["spec"]["template"]
            ports = (port for container in template["spec"]["containers"] for port in container.get("ports", ()))
            yield template["metadata"]["labels"], {port["name"] for port in ports if "name" in port}


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "monitor", "chart"),
    [
        ("plugin", EXPORTER, "dcgm-exporter"),
        ("plugin", "gpu-ci-arc-controller", "arc-controller"),
        ("operator", "gpu-ci-kueue", "kueue"),
        ("plugin", "gpu-ci-cluster-autoscaler", "cluster-autoscaler"),
    ],
)
def test_a_monitor_selects_what_its_published_chart_makes(name: str, monitor: str, chart: str, tmp_path: Path) -> None:
    release = charts(name)[chart]
    manifests = render(published(release.chart), release.values, tmp_path, name=release.name, namespace=release.namespace)
    (found,) = (each for each in objects(name, *MONITORS) if each["metadata"]["name"] == monitor)
    assert found["spec"]["namespaceSelector"]["matchNames"] == [release.namespace]
    labels, port = found["spec"]["selector"]["matchLabels"], endpoints(found)[0]["port"]
    if found["kind"] == "PodMonitor":
        held = [ports for of, ports in _pods(manifests) if labels.items() <= of.items()]
    else:
        services = [each for each in of_kind(manifests, "Service") if labels.items() <= each["metadata"]["labels"].items()]
        held = [{each["name"] for each in service["spec"]["ports"]} for service in services]
    assert [port in each for each in held] == [True]


@pytest.mark.reference
def test_argo_cds_controller_has_the_port_that_is_scraped(tmp_path: Path) -> None:
    held = fleet(one=cluster(monitoring=INSTALL, delivery="argocd", gitops=gitops()))
    (release,) = (each for each in installed(held.clusters["one"], "x", held.github) if each.name == "argo-cd")
    manifests = render(published("argo-cd"), release.values, tmp_path, name=release.name, namespace=release.namespace)
    (found,) = (each for each in monitoring_objects(held, "one") if each["metadata"]["name"] == "gpu-ci-argo-cd")
    labels = found["spec"]["selector"]["matchLabels"]
    assert ["metrics" in ports for of, ports in _pods(manifests) if labels.items() <= of.items()] == [True]


@pytest.mark.reference
def test_prometheus_is_rendered_without_hooks_webhooks_and_monitors_of_a_hidden_control_plane(tmp_path: Path) -> None:
    release = charts("plugin")["kube-prometheus-stack"]
    made = render(published(release.chart), release.values, tmp_path, name=release.name, namespace=release.namespace)
    kinds = {each["kind"] for each in made}
    assert not kinds & {"Job", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
    names = {each["metadata"]["name"].removeprefix("kube-prometheus-stack-") for each in of_kind(made, "ServiceMonitor")}
    inside = {"kube-state-metrics", "prometheus-node-exporter"}
    assert names == {"alertmanager", "apiserver", "coredns", "kubelet", "operator", "prometheus"} | inside
    (spec,) = (each["spec"] for each in of_kind(made, "Prometheus"))
    selectors = ("serviceMonitorSelector", "podMonitorSelector", "ruleSelector", "probeSelector", "scrapeConfigSelector")
    assert [spec[each] for each in selectors] == [{}] * 5, "everything"
    assert [spec[each.replace("Selector", "NamespaceSelector")] for each in selectors] == [{}] * 5, "in every namespace"
    assert spec["nodeSelector"] == {"gpu-ci/pool": "system"}


def test_the_example_shows_an_operator_a_device_plugin_and_an_oke_cluster_with_machines() -> None:
    held = load(read_stack(ROOT / "examples" / "Pulumi.monitoring.yaml"))
    assert {name: each.enablement for name, each in held.clusters.items()} == {
        "use1": "gpu-operator",
        "usw2": "device-plugin",
        "sjc": "gpu-plugin-addon",
    }
    assert all(each.monitoring is not None for each in held.clusters.values())
    assert any(runner.kind == "vm-per-job" for runner in held.clusters["sjc"].runners.values())
