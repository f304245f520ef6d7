"""metrics-server: where a cluster gets it from, and how it reaches kubelets. What all charts do is in test_charts.py."""

from __future__ import annotations

import re

import pytest

from fleet.charts import Chart
from fleet.facts.scheduling import system_labels
from fleet.facts.versions import CHARTS
from fleet.loading.config import load
from fleet.providers.installed import installed, plain_charts
from fleet.settings.cluster import Cluster
from tests.builders import cluster, config, oke_cluster, reference, talos_cluster
from tests.fleet.values import asks, read_yaml

FLEET = load(config(clusters={"usw2": cluster(), "sjc": oke_cluster()}))
CLUSTERS: dict[str, Cluster] = FLEET.clusters | load(config(clusters={"home": talos_cluster()})).clusters


def chart(name: str) -> Chart:
    """metrics-server of a cluster that gets the chart."""
    (found,) = [each for each in plain_charts(CLUSTERS[name]) if each.name == "metrics-server"]
    return found


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_cluster_has_it_once_by_the_providers_add_on_or_by_the_chart(name: str) -> None:
    held = CLUSTERS[name]
    charts = [each.name for each in installed(held, name, FLEET.github)].count("metrics-server")
    assert charts + ("metrics-server" in held.provided) == 1


def test_eks_has_an_add_on_for_it() -> None:
    assert "metrics-server" in CLUSTERS["usw2"].provided
    assert list(plain_charts(CLUSTERS["usw2"])) == []


@pytest.mark.parametrize(("name", "args"), [("home", ["--kubelet-insecure-tls"]), ("sjc", [])])
def test_only_kubelets_that_sign_their_own_certificates_go_unchecked(name: str, args: list[str]) -> None:
    assert chart(name).values["args"] == args


def test_its_pod_is_on_the_system_pool_with_an_image_of_one_content() -> None:
    values = chart("home").values
    assert values["nodeSelector"].items() <= system_labels("home").items()
    assert re.fullmatch(r"v\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", values["image"]["tag"])
    assert f"{values['image']['repository']}:{values['image']['tag']}" == CHARTS["metrics-server"].image


@pytest.mark.reference
def test_image_and_requests_are_the_charts_own() -> None:
    folder = reference(f"metrics-server/{CHARTS['metrics-server'].version}")
    published, values = read_yaml(folder / "values.yaml"), chart("home").values
    assert asks(values["resources"]) == asks(published["resources"])
    assert values["image"]["repository"] == published["image"]["repository"]
    assert values["image"]["tag"].partition("@")[0] == f"v{read_yaml(folder / 'Chart.yaml')['appVersion']}"
