"""Versions of charts, images, node images and add-ons: a view of `data/versions.toml`, where each has source and date."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ChartVersion:
    """A Helm chart as published. `repository` is an https index or an oci:// registry path, without the chart's name."""

    name: str
    repository: str
    version: str


@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """What goes with one Kubernetes minor on EKS. `ami_release` serves the standard and the NVIDIA image alike."""

    minor: str
    ami_release: str
    cluster_autoscaler: str
    addons: dict[str, str]
    standard_support_until: str


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """What a DaemonSet's pod requests on each node: millicores and MiB."""

    name: str
    cpu: int
    memory: int


def _read() -> dict[str, Any]:
    with (Path(__file__).parent / "data" / "versions.toml").open("rb") as file:
        return tomllib.load(file)


_DATA = _read()

CHARTS: dict[str, ChartVersion] = {
    name: ChartVersion(name, row["repository"], row["version"]) for name, row in _DATA["charts"].items()
}
KUBERNETES: dict[str, KubernetesVersion] = {
    minor: KubernetesVersion(minor, row["ami-release"], row["cluster-autoscaler"], row["addons"], row["standard-support-until"])
    for minor, row in _DATA["kubernetes"].items()
}
DAEMONSETS: dict[str, DaemonSet] = {name: DaemonSet(name, row["cpu"], row["memory"]) for name, row in _DATA["daemonsets"].items()}
RUNNER_IMAGE: str = _DATA["images"]["actions-runner"]["reference"]
