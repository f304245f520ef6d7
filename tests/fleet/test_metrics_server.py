"""metrics-server: where a cluster gets it from, and how it reaches kubelets. What all charts do is in test_charts.py."""

from __future__ import annotations

import re

import pytest

from fleet.charts.metrics_server import plain_chart
from fleet.facts.scheduling import system_labels
from fleet.facts.versions import CHART_IMAGES, CHARTS
from fleet.loading.config import load
from fleet.providers.installed import installed
from fleet.settings.cluster import Cluster
from tests.builders import cluster, config, oke_cluster, reference, talos_cluster
from tests.fleet.values import asks, read_yaml

FLEET = load(config(clusters={"usw2": cluster(), "sjc": oke_cluster()}))
CLUSTERS: dict[str, Cluster] = FLEET.clusters | load(config(clusters={"home": talos_cluster()})).clusters


@pytest.mark.parametrize(("name", "charts"), [("usw2", 0), ("sjc", 0), ("home", 1)])
def test_a_cluster_gets_the_chart_only_where_its_provider_has_no_add_on(name: str, charts: int) -> None:
    held = CLUSTERS[name]
    assert [each.name for each in installed(held, name, FLEET.github)].count("metrics-server") == charts
    assert ("metrics-server" in held.provided) is not bool(charts)


@pytest.mark.parametrize(("name", "args"), [("home", ["--kubelet-insecure-tls"]), ("sjc", []), ("usw2", [])])
def test_only_kubelets_that_sign_their_own_certificates_go_unchecked(name: str, args: list[str]) -> None:
    assert plain_chart(CLUSTERS[name]).values["args"] == args


def test_its_pod_is_on_the_system_pool_with_an_image_of_one_content() -> None:
    values = plain_chart(CLUSTERS["home"]).values
    assert values["nodeSelector"].items() <= system_labels("home").items()
    assert re.fullmatch(r"v\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", values["image"]["tag"])
    assert values["image"] == CHART_IMAGES["metrics-server"]["image"].values


@pytest.mark.reference
def test_image_and_requests_are_the_charts_own() -> None:
    folder = reference(f"metrics-server/{CHARTS['metrics-server'].version}")
    published, values = read_yaml(folder / "values.yaml"), plain_chart(CLUSTERS["home"]).values
    assert asks(values["resources"]) == asks(published["resources"])
    assert values["image"]["repository"] == published["image"]["repository"]
    assert values["image"]["tag"].partition("@")[0] == f"v{read_yaml(folder / 'Chart.yaml')['appVersion']}"
