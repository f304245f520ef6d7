"""Versions of charts, images, node images and add-ons: a view of `data/versions.toml`, where each has source and date."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fleet.facts.tables import toml


@dataclass(frozen=True, slots=True)
class ChartVersion:
    """A Helm chart as published. `repository` is an https index, or an oci:// registry path without the chart's name.

    `image` is the chart's own image with its digest, where a source gives one, else empty.
    """

    name: str
    repository: str
    version: str
    image: str = ""


@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """What goes with one Kubernetes minor on EKS. `ami_release` serves the standard and the NVIDIA image alike.

    `driver` and `toolkit` are NVIDIA's driver and container toolkit in the NVIDIA image; None where no source names them. Every
    cluster has the `addons`. Of the storage `drivers`, which are add-ons too, it has those that its caches need.
    """

    minor: str
    ami_release: str
    driver: str | None
    toolkit: str | None
    cluster_autoscaler: str
    addons: dict[str, str]
    drivers: dict[str, str]


@dataclass(frozen=True, slots=True)
class OkeVersion:
    """One Kubernetes minor on OKE: the version as OKE spells it, and what a source names for it, else None.

    `gpu_image` is the name of an x86 GPU node image, without its build; `autoscaler` the version of the add-on ClusterAutoscaler.
    """

    version: str
    gpu_image: str | None
    autoscaler: str | None


@dataclass(frozen=True, slots=True)
class TalosVersion:
    """One Talos release. `drivers` are NVIDIA's, by the tier of the system extensions that bring them (production, lts).

    `toolkit` is the container toolkit beside either; `kubernetes` is the oldest and the newest minor that the release takes.
    """

    release: str
    drivers: dict[str, str]
    toolkit: str
    kubernetes: tuple[str, str]


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """What a DaemonSet's pod requests on each node: millicores and MiB, side cars included.

    `providers` are those whose nodes run it. One with a `feature` runs where the cluster has that: a storage driver, or the part
    of the network that enforces policies. It `replaces` the row of that name there. The charts know their own DaemonSets.
    """

    name: str
    cpu: int
    memory: int
    providers: tuple[str, ...] = ()
    feature: str = ""
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class Nvkind:
    """The pinned nvkind (a commit), the container toolkit minors that it works with, and the Go that builds it."""

    version: str
    toolkits: tuple[str, ...]
    go: str


@dataclass(frozen=True, slots=True)
class Kubeflow:
    """What a job makes a kind cluster with GPUs and Kubeflow Trainer of.

    `node_toolkit` is what the kind nodes get, not the host. `driver_branch` is the oldest branch of the host's driver.
    """

    node_image: str
    node_toolkit: str
    driver_branch: int
    trainer: str
    trainer_commit: str


@dataclass(frozen=True, slots=True)
class Download:
    """A file of a publisher's site and its SHA-256."""

    version: str
    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Image:
    """A container image: by version, and by digest where a source gives one.

    `architectures` are those that it is known to be built for (empty: not said). `least_capability` is the least of NVIDIA's
    compute capabilities that it has code for ("7.0"); empty where no source gives one. `least_driver` is the oldest branch of
    NVIDIA's driver that its CUDA runs on; None where no source gives one.
    """

    reference: str
    architectures: tuple[str, ...]
    least_capability: str
    least_driver: int | None


_DATA = toml("versions.toml")


def _known(value: str) -> str | None:
    return None if value == "unknown" else value


CHARTS: dict[str, ChartVersion] = {
    name: ChartVersion(name, row["repository"], row["version"], row.get("image", "")) for name, row in _DATA["charts"].items()
}
KUBERNETES: dict[str, KubernetesVersion] = {
    minor: KubernetesVersion(
        minor,
        row["ami-release"],
        _known(row["driver"]),
        _known(row["toolkit"]),
        row["cluster-autoscaler"],
        row["addons"],
        row["drivers"],
    )
    for minor, row in _DATA["kubernetes"].items()
}
DAEMONSETS: dict[str, DaemonSet] = {
    name: DaemonSet(
        name, row["cpu"], row["memory"], tuple(row.get("providers", ())), row.get("feature", ""), row.get("replaces", "")
    )
    for name, row in _DATA["daemonsets"].items()
}
OKE_KUBERNETES: dict[str, OkeVersion] = {
    minor: OkeVersion(row["version"], _known(row["gpu-image"]), _known(row["autoscaler"])) for minor, row in _DATA["oke"].items()
}
TALOS: dict[str, TalosVersion] = {
    minor: TalosVersion(
        row["release"],
        {tier: row[tier] for tier in ("production", "lts")},
        row["toolkit"],
        (row["kubernetes"][0], row["kubernetes"][1]),
    )
    for minor, row in _DATA["talos"].items()
}
TALOS_KUBERNETES: dict[str, str] = {minor: row["version"] for minor, row in _DATA["talos-kubernetes"].items()}
"""Kubernetes minor → the release of it that Talos installs."""
IMAGES: dict[str, Image] = {
    name: Image(row["reference"], tuple(row.get("architectures", ())), row.get("least-capability", ""), row.get("least-driver"))
    for name, row in _DATA["images"].items()
}
RUNNER_IMAGE = IMAGES["actions-runner"].reference
LAUNCHER_IMAGE = IMAGES["oci-cli"].reference
CNCF_LAUNCHER_IMAGE = IMAGES["cncf-cloudrunner"].reference
OPERATOR_DRIVER: str = _DATA["driver"]["gpu-operator"]["version"]
VM_TOOLKIT: str = _DATA["vm"]["toolkit"]["version"]
_NVKIND = _DATA["vm"]["nvkind"]
NVKIND = Nvkind(_NVKIND["version"], tuple(_NVKIND["toolkits"]), _NVKIND["go"])
_KUBEFLOW = _DATA["kubeflow"]
KUBEFLOW = Kubeflow(
    node_image=_KUBEFLOW["node"]["reference"],
    node_toolkit=_KUBEFLOW["node-toolkit"]["version"],
    driver_branch=_KUBEFLOW["driver"]["branch"],
    trainer=_KUBEFLOW["trainer"]["version"],
    trainer_commit=_KUBEFLOW["trainer"]["commit"],
)
DOWNLOADS: dict[str, Download] = {
    name: Download(row["version"], row["url"].format(version=row["version"]), row["sha256"])
    for name, row in _DATA["vm"]["downloads"].items()
}
"""What a machine fetches at boot, by tool."""


def minor(version: str) -> tuple[int, ...]:
    """A minor version's parts, which order as versions do: "1.9" is before "1.13"."""
    return tuple(map(int, version.split(".")))


def daemonsets(provider: str, features: Collection[str] = ()) -> tuple[DaemonSet, ...]:
    """What every node of a provider's clusters runs by itself; `features` are those of the cluster that add to it."""
    rows = [row for row in DAEMONSETS.values() if provider in row.providers or row.feature in features]
    replaced = {row.replaces for row in rows}
    return tuple(row for row in rows if row.name not in replaced)
