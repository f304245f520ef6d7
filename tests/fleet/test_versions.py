"""Versions: each has a source and a date, and those that belong together agree."""

from __future__ import annotations

import ast
import datetime
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet import versions
from fleet.versions import CHARTS, DAEMONSETS, KUBERNETES, RUNNER_IMAGE

ROOT = Path(versions.__file__).parents[1]
DATA: dict[str, Any] = tomllib.loads((ROOT / "fleet" / "data" / "versions.toml").read_text(encoding="utf-8"))
ROWS = [(f"{table}.{name}", row) for table, rows in DATA.items() for name, row in rows.items()]

each_minor = pytest.mark.parametrize(("minor", "row"), KUBERNETES.items())


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_every_version_has_a_source_and_an_iso_date(name: str, row: dict[str, Any]) -> None:
    assert row["source"].strip(), name
    assert datetime.date.fromisoformat(row["date"]).isoformat() == row["date"], f"{name}: write the date as 2026-11-21"


def test_every_row_is_read() -> None:
    assert set(CHARTS) == set(DATA["charts"])
    assert set(KUBERNETES) == set(DATA["kubernetes"])
    assert set(DAEMONSETS) == set(DATA["daemonsets"])
    assert set(DATA["images"]) == {"actions-runner"}
    assert DATA["images"]["actions-runner"]["reference"] == RUNNER_IMAGE


@each_minor
def test_a_node_image_is_a_patch_of_its_minor_with_a_build_date(minor: str, row: versions.KubernetesVersion) -> None:
    match = re.fullmatch(r"(\d+\.\d+)\.\d+-(\d{8})", row.ami_release)
    assert match, row.ami_release
    assert match[1] == minor == row.minor
    assert datetime.datetime.strptime(match[2], "%Y%m%d").replace(tzinfo=datetime.UTC), "the build's day exists"


@each_minor
def test_the_autoscaler_is_of_the_clusters_minor(minor: str, row: versions.KubernetesVersion) -> None:
    """Cluster Autoscaler simulates the scheduler of its own minor."""
    assert re.fullmatch(rf"v{re.escape(minor)}\.\d+", row.cluster_autoscaler)


@each_minor
def test_add_ons_have_the_form_of_eks(minor: str, row: versions.KubernetesVersion) -> None:
    assert set(row.addons) == {
        "vpc-cni",
        "kube-proxy",
        "coredns",
        "eks-pod-identity-agent",
        "eks-node-monitoring-agent",
    }, "what a node needs to join, name resolution, rights and repair"
    assert {name: version for name, version in row.addons.items() if not _is_eks_build(version)} == {}
    assert row.addons["kube-proxy"].startswith(f"v{minor}."), "kube-proxy follows the control plane"


def _is_eks_build(version: str) -> bool:
    return re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", version) is not None


@pytest.mark.parametrize("version", ["1.34.6-eksbuild.17", "v1.34-eksbuild.1", "v1.34.6", "v1.34.6-eksbuild", "latest"])
def test_what_is_no_add_on_version_is_told_apart(version: str) -> None:
    assert not _is_eks_build(version)


def test_controller_and_scale_set_chart_have_one_version() -> None:
    """A mismatch makes the controller delete every scale set."""
    assert CHARTS["gha-runner-scale-set"].version == CHARTS["gha-runner-scale-set-controller"].version
    assert CHARTS["gha-runner-scale-set"].repository == CHARTS["gha-runner-scale-set-controller"].repository


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_version_has_no_v_and_no_range(name: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", CHARTS[name].version)


@pytest.mark.parametrize("name", DAEMONSETS)
def test_a_daemonset_requests_whole_units_that_are_not_negative(name: str) -> None:
    row = DAEMONSETS[name]
    assert (type(row.cpu), type(row.memory)) == (int, int)
    assert row.cpu >= 0
    assert row.memory >= 0


def test_daemonsets_are_those_that_the_cluster_installs() -> None:
    """The add-ons that run on each node, and the device plugin; CoreDNS is a Deployment. VPC CNI's DaemonSet is aws-node."""
    addons = {addon for row in KUBERNETES.values() for addon in row.addons} - {"coredns", "vpc-cni"}
    assert set(DAEMONSETS) == addons | {"aws-node", "nvidia-device-plugin"}


def test_the_driver_is_a_branch_that_the_newest_minor_ships() -> None:
    row = DATA["driver"]["al2023-nvidia"]
    assert re.fullmatch(r"\d{3}\.\d+\.\d+", row["version"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", row["toolkit"])
    newest = max(release.rpartition("-")[2] for release in (each.ami_release for each in KUBERNETES.values()))
    assert newest in row["source"], "driver and node image are of one release"


def test_no_other_module_spells_a_version() -> None:
    """A version outside versions.toml is one that an update forgets."""
    pinned = [chart.version for chart in CHARTS.values()] + [RUNNER_IMAGE]
    pinned += [value for row in KUBERNETES.values() for value in (row.ami_release, row.cluster_autoscaler, *row.addons.values())]
    ends = tuple(f"{sign}{version}" for version in pinned for sign in (":", "@", "-"))
    found = [f"{place}: {text}" for place, text in _texts() if text in pinned or text.endswith(ends)]
    assert found == []


def _texts() -> Iterator[tuple[str, str]]:
    """(place, text) of every string in the program; prose that names a version ends in other words."""
    for folder in ("fleet", "components"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def test_rows_are_frozen() -> None:
    with pytest.raises(AttributeError):
        CHARTS["gha-runner-scale-set"].version = "0.0.1"  # type: ignore[misc]
