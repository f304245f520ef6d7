"""The registry of a cluster: what is pulled from it, which values of charts say so, and what it costs and saves."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.chart import chart_values, mirrored
from fleet.facts import versions
from fleet.facts.pricing import total
from fleet.loading.config import load
from fleet.prove.bill import lines as lines_of
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.eks.ecr import KEPT_IMAGES, UPSTREAMS
from fleet.render.placeholders import placeholders
from fleet.settings.registry import Mirror, parts
from tests import yaml12
from tests.builders import cluster, config, reference
from tests.cases import cases
from tests.day import AS_OF
from tests.policies.published import skip_or_fail

ADDRESS = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci"
A, B = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
MIRROR = Mirror(ADDRESS, frozenset(("docker.io", "ghcr.io", "quay.io")), frozenset((PLUGIN, f"nvcr.io/nvidia/cuda@{A}")), "")
IMAGES = [(chart, path, image) for chart, images in versions.CHART_IMAGES.items() for path, image in images.items()]
EVERYTHING = Mirror(ADDRESS, frozenset(UPSTREAMS), frozenset(parts(image.reference).exact for _, _, image in IMAGES), "")


def described(**registry: Any) -> EksCluster:
    held = load(config(clusters={"usw2": cluster(registry={"account": "123456789012", **registry})})).clusters["usw2"]
    assert isinstance(held, EksCluster)
    return held


def remarks(held: EksCluster) -> list[str]:
    return [each for each in held.remarks if each.startswith("registry")]


# -- references --------------------------------------------------------------------------------------------------------


@cases(
    ("reference", "target"),
    [
        ("ghcr.io/actions/actions-runner:2.338.0", "ghcr.io/actions/actions-runner:2.338.0"),
        (f"quay.io/argoproj/argocd:v3@{A}", f"quay.io/argoproj/argocd:v3@{A}"),
        ("pytorch/pytorch:2.10.0", "docker.io/pytorch/pytorch:2.10.0"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("docker.io/ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        (f"index.docker.io/ollama/ollama@{A}", f"docker.io/ollama/ollama@{A}"),
        (PLUGIN, PLUGIN),
        (f"{PLUGIN}@{A}", f"{PLUGIN}@{A}"),
        (f"nvcr.io/nvidia/cuda@{A}", f"nvcr.io/nvidia/cuda@{A}"),
    ],
)
def test_an_image_is_below_the_host_of_its_origin(reference: str, target: str) -> None:
    assert MIRROR.through(reference) == f"{ADDRESS}/{target}"


@cases(
    "reference",
    [
        "nvcr.io/nvidia/k8s-device-plugin:v0.19.0",
        f"nvcr.io/nvidia/cuda@{B}",
        "mcr.microsoft.com/azuredocs/samples-tf-mnist-demo:gpu",
        "localhost:5000/ghcr.io/image:1",
        f"{ADDRESS}/runner-gpu@{A}",
    ],
)
def test_an_image_that_is_neither_cached_nor_copied_is_left_alone(reference: str) -> None:
    assert MIRROR.through(reference) == reference


def test_twice_through_the_registry_is_once() -> None:
    once = MIRROR.through("ghcr.io/actions/actions-runner:2.338.0")
    assert MIRROR.through(once) == once


def test_images_of_pods_change_and_nothing_else_of_a_manifest() -> None:
    pod = {"initContainers": [{"name": "a", "image": "ubuntu:24.04"}], "containers": [{"image": PLUGIN, "args": ["quay.io/x"]}]}
    found = mirrored(MIRROR, {"kind": "Job", "spec": {"template": {"spec": pod}}, "image": {"tag": "1"}})
    spec = found["spec"]["template"]["spec"]
    assert [each["image"] for each in (*spec["initContainers"], *spec["containers"])] == [
        f"{ADDRESS}/docker.io/library/ubuntu:24.04",
        f"{ADDRESS}/{PLUGIN}",
    ]
    assert spec["containers"][0]["args"] == ["quay.io/x"]
    assert found["image"] == {"tag": "1"}


# -- charts ------------------------------------------------------------------------------------------------------------


def at(values: dict[str, Any], path: str) -> Any:
    for key in path.split("."):
        values = values[key]
    return values


each_image = cases(("chart", "path", "image"), IMAGES)


@each_image
def test_a_charts_image_comes_from_the_registry(chart: str, path: str, image: versions.ChartImage) -> None:
    found = at(chart_values(EVERYTHING, chart, {"image": {"tag": "kept"}}), path)
    name = parts(image.reference)
    joined = "/".join(found[key] for key in ("registry", "repository", "image") if key in found)
    assert joined == f"{ADDRESS}/{name.host}/{name.path}"


def test_values_that_the_program_sets_stay_beside_the_registry() -> None:
    values = chart_values(EVERYTHING, "cluster-autoscaler", {"image": {"tag": "v1.34.5"}, "awsRegion": "us-west-2"})
    repository = f"{ADDRESS}/registry.k8s.io/autoscaling/cluster-autoscaler"
    assert values == {"image": {"tag": "v1.34.5", "repository": repository}, "awsRegion": "us-west-2"}


def test_every_chart_but_the_runner_sets_has_its_images_in_the_table() -> None:
    assert versions.CHART_IMAGES.keys() == versions.CHARTS.keys() - {"gha-runner-scale-set"}


SUBCHARTS = ("kube-state-metrics.", "prometheus-node-exporter.", "node-feature-discovery.")
"""Their values are in charts of their own."""


@cache
def _values(path: Path) -> Any:
    return yaml12.read(path.read_text(encoding="utf-8"))


@pytest.mark.reference
@each_image
def test_the_chart_reads_the_value_and_runs_this_image(chart: str, path: str, image: versions.ChartImage) -> None:
    folder = f"{chart}/{versions.CHARTS[chart].version}"
    values, below = _values(reference(f"{folder}/values.yaml")), path
    if path.startswith(SUBCHARTS):
        subchart, _, below = path.partition(".")
        inside = reference(folder) / "charts" / subchart / "values.yaml"
        if not inside.exists():
            skip_or_fail(reference(folder), f"lacks the subchart {subchart}")
        values = _values(inside)
    found, wanted = at(values, below), image.values
    for key in wanted.keys() & {"registry", "repository", "image"}:
        assert found[key].replace("ecr-public.aws.com", "public.ecr.aws") == wanted[key]
    name = parts(image.reference)
    if name.host == "nvcr.io":
        version = found.get("tag", found.get("version")) or versions.CHARTS[chart].version
        assert name.version.partition("@")[0].removeprefix(":") in (version, f"v{version}"), "a copy is found by its tag"


# -- the runner image --------------------------------------------------------------------------------------------------


def test_classes_without_an_image_use_the_registrys_by_digest() -> None:
    held = described(runnerImage={"version": A})
    runner = held.runners["gpu-t4"]
    assert held.with_image(runner).image == f"{ADDRESS}/runner-gpu@{A}"
    own = runner.model_copy(update={"image": "ghcr.io/example/runner:1"})
    assert held.with_image(own) is own
    placed = held.model_copy(update={"pools": {"t4": held.pools["t4"].model_copy(update={"placeholders": 1})}})
    (holder,) = placeholders(placed)["t4"]["spec"]["template"]["spec"]["containers"]
    assert holder["image"] == f"{ADDRESS}/runner-gpu@{A}", "a placeholder pulls what the runner runs"
    assert described().with_image(runner) is runner, "without a digest the classes use GitHub's image"


# -- costs -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
def test_a_cold_start_is_priced_by_the_size_that_is_given() -> None:
    (line,) = remarks(described(runnerImage={"version": A, "sizeGb": 12.5}))
    assert line == (
        "registry: a cold start pulls 12.5 GB of the runner image. Through NAT that costs 12.5 GB x 0.045 USD/GB = 0.562 USD; "
        "from ECR through the S3 endpoint it costs 0"
    )


def test_without_a_size_a_cold_start_is_not_measured() -> None:
    (line,) = remarks(described(runnerImage={"version": A}))
    assert line == "registry: what a cold start saves on NAT is not measured; add runnerImage.sizeGb, as ECR shows it"


def test_an_image_that_pods_name_otherwise_is_of_no_use_in_an_ami() -> None:
    through, kept = f"quay.io/org/tool@{A}", f"{ADDRESS}/quay.io/org/tool@{A}"
    changes = {"amis": {"gpu": {"buildType": "g4dn.xlarge", "prePull": [through, kept]}}}
    registry = {"account": "123456789012", "pullThrough": {"quay.io": {}}}
    held = load(config(clusters={"usw2": cluster(registry=registry, **changes)})).clusters["usw2"]
    (found,) = (each for each in held.remarks if "prePull" in each)
    assert found.startswith(f"ami gpu: pods name quay.io/org/tool as {ADDRESS}/quay.io/org/tool, so they do not find")


def test_an_existing_network_needs_its_own_endpoint() -> None:
    subnets = {"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "subnet-0123456789abcdef1"}
    network = {"vpcId": "vpc-0123456789abcdef0", "privateSubnets": subnets}
    settings = cluster(registry={"account": "123456789012", "pullThrough": {"quay.io": {}}}, network=network)
    held = load(config(clusters={"usw2": settings})).clusters["usw2"]
    endpoint, storage = remarks(held)
    assert re.search("vpc-0123456789abcdef0 needs a gateway endpoint for S3, which is free", endpoint)
    assert storage.endswith("so the bill lacks their storage")


@pytest.mark.usefixtures("numbers")
def test_the_bill_has_the_key_and_the_images() -> None:
    bill = list(lines_of("usw2", described(runnerImage={"version": A, "sizeGb": 10}), AS_OF))
    assert len({line.item for line in bill}) == len(bill), "a start's price compares lines by their item"
    lines = [line for line in bill if line.item.startswith("registry")]
    idle, worst = total(lines)
    month, key, image = 730, 1.0, 10 * 0.10
    assert idle.usd * month == pytest.approx(key + image, rel=1e-4)
    assert worst.usd * month == pytest.approx(3 * key + KEPT_IMAGES * image, rel=1e-4)
    assert not [line for line in lines_of("usw2", load(config()).clusters["usw2"], AS_OF) if line.item.startswith("registry")]
