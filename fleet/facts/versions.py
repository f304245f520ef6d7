"""Versions of charts, images, node images and add-ons: a view of `data/versions.toml`, where each has source and date."""

import re
from collections.abc import Collection
from typing import Literal

from fleet.facts.manifest import filled
from fleet.facts.record import Record
from fleet.facts.tables import entries, entry, toml


class ChartVersion(Record):
    """A Helm chart as published. `repository` is an https index, or an oci:// registry path without the chart's name.

    `sha256` is the digest of the chart's archive, as the index has it; for an OCI chart the digest of its manifest. It is empty
    if no source gives it. `offline.helm` compares it with what the repository has.
    """

    name: str
    repository: str
    version: str
    sha256: str = ""


Form = Literal["tag", "version", "sha", "sha256", "digest"]


class ChartImage(Record):
    """An image that a chart runs: `registry/repository:tag@sha256:…`, without tag or digest if the row has none.

    `form` says how the chart's values spell an image:

    - `tag`: repository and tag
    - `version`: repository, image and version
    - `sha`: registry, repository, tag, and sha without "sha256:"
    - `sha256`: the same keys, and sha with "sha256:"
    - `digest`: registry, repository, tag, and digest with "sha256:"

    `suffix` is what the chart adds to the tag of its values. The reference has it, and the values do not.
    """

    reference: str
    form: Form = "tag"
    suffix: str = ""

    @property
    def pinned(self) -> bool:
        """Whether the reference has a digest."""
        return "@" in self.reference

    @property
    def values(self) -> dict[str, str]:
        """The values that name the image. A tag may end in a digest.

        A version is the digest alone: the GPU operator writes "@" before a version that starts with "sha256:", and ":" before any
        other (NVIDIA/gpu-operator v26.7.0 internal/image/image.go).
        """
        name, at, digest = self.reference.partition("@")
        folders, slash, last = name.rpartition("/")
        last, _, tag = last.partition(":")
        tag = tag.removesuffix(self.suffix)
        path = f"{folders}{slash}{last}"
        match self.form:
            case "version":
                fields = {"repository": folders, "image": last, "version": digest or tag}
            case "sha" | "sha256" | "digest":
                registry, _, repository = path.partition("/")
                key, text = self.form.removesuffix("256"), digest.removeprefix("sha256:") if self.form == "sha" else digest
                fields = {"registry": registry, "repository": repository, "tag": tag, key: text}
            case _:
                fields = {"repository": path, "tag": f"{tag}{at}{digest}"}
        return filled(fields)


class KubernetesVersion(Record):
    """The versions for one Kubernetes minor on EKS. `ami_release` is the release of the standard and of the NVIDIA node image.

    `driver` and `toolkit` are NVIDIA's driver and container toolkit in the NVIDIA image; None if no source names them. Every
    cluster gets the `addons`. The storage `drivers` are add-ons too: a cluster gets those that its caches need. `cloudwatch` is
    the version of CloudWatch's add-on, which a cluster gets if its settings ask for it.
    """

    minor: str
    ami_release: str
    driver: str | None
    toolkit: str | None
    cluster_autoscaler: str
    cloudwatch: str
    addons: dict[str, str]
    drivers: dict[str, str]


class OkeVersion(Record):
    """One Kubernetes minor on OKE: the version as OKE spells it, a node image and an add-on. None if no source names it.

    `gpu_image` is the name of an x86 GPU node image without its build; `autoscaler` is the version of the add-on
    ClusterAutoscaler that Oracle names for the minor, which may be of an older minor.
    """

    version: str
    gpu_image: str | None
    autoscaler: str | None


class TalosVersion(Record):
    """One Talos release. `drivers` has NVIDIA's driver by the tier of the system extension that contains it (production, lts).

    `toolkit` is the container toolkit of both tiers. `kubernetes` is the oldest and the newest minor that the release supports.
    """

    release: str
    drivers: dict[str, str]
    toolkit: str
    kubernetes: tuple[str, str]


class DaemonSet(Record):
    """What a DaemonSet's pod requests on each node: millicores and MiB, side cars included.

    The nodes of the `providers` run it. A DaemonSet with a `feature` runs if the cluster has that feature: a storage driver, or
    the network add-on that enforces policies. There it `replaces` the row of that name. `fleet.charts` has the DaemonSets of
    charts.
    """

    name: str
    cpu: int
    memory: int
    providers: tuple[str, ...] = ()
    feature: str = ""
    replaces: str = ""


class Nvkind(Record):
    """The pinned nvkind (a commit), the container toolkit minors that it works with, and the Go version that builds it."""

    version: str
    toolkits: tuple[str, ...]
    go: str


class Download(Record):
    """A file on its publisher's site, and its SHA-256."""

    version: str
    url: str
    sha256: str


class Image(Record):
    """A container image with its version, and with its digest if a source gives one.

    `architectures` are the CPU architectures of its builds; empty if no source names them. `least_capability` is the lowest CUDA
    compute capability that it has code for ("7.0"); empty if no source gives one. `least_driver` is the oldest branch of NVIDIA's
    driver that its CUDA runs on; None if no source gives one. `most_capability` is the highest compute capability that its
    compiler builds code for, or that it has code for; empty if no source gives a limit.
    """

    reference: str
    architectures: tuple[str, ...] = ()
    least_capability: str = ""
    least_driver: int | None = None
    most_capability: str = ""


class RunnerGpu(Record):
    """One row of the matrix of images/runner-gpu: NVIDIA's images of a CUDA and an Ubuntu release, and what they contain.

    `base`, `runtime` and `devel` are references with digests. `ccache` is the version of Ubuntu's package. `image` is what a
    runner image of this row runs on; its `reference` is the row's name.
    """

    name: str
    base: str
    runtime: str
    devel: str
    cuda: str
    cudnn: str
    ubuntu: str
    ccache: str
    image: Image


_DATA = toml("versions.toml")


CHARTS = entries(ChartVersion, _DATA["charts"], "name")
CHART_IMAGES = {chart: entries(ChartImage, images) for chart, images in _DATA["chart-images"].items()}
"""Images of charts: chart, then path in its values."""
KUBERNETES = entries(KubernetesVersion, _DATA["kubernetes"], "minor")
DAEMONSETS = entries(DaemonSet, _DATA["daemonsets"], "name")
OKE_KUBERNETES = entries(OkeVersion, _DATA["oke"])
_TALOS = _DATA["talos"].items()
TALOS = {minor: entry(TalosVersion, row, drivers={tier: row[tier] for tier in ("production", "lts")}) for minor, row in _TALOS}
TALOS_KUBERNETES: dict[str, str] = {minor: row["version"] for minor, row in _DATA["talos-kubernetes"].items()}
"""The Kubernetes release that Talos installs, by minor."""
IMAGES = entries(Image, _DATA["images"])
RUNNER_IMAGE = IMAGES["actions-runner"].reference
RUNNER_GPU = {
    # sccache and the runner are x86_64 builds.
    name: entry(RunnerGpu, row, name=name, image=entry(Image, row, reference=name, architectures=("x86_64",)))
    for name, row in _DATA["runner-gpu"].items()
}
RUNNER_GPU_REPOSITORY = "runner-gpu"
"""The last part of the repository of images that `make image` builds. Their tags start with the name of a row of `RUNNER_GPU`."""
LAUNCHER_IMAGE = IMAGES["oci-cli"].reference
CNCF_LAUNCHER_IMAGE = IMAGES["cncf-cloudrunner"].reference
EXPORTER_IMAGE = IMAGES["dcgm-exporter"].reference
PROMETHEUS_IMAGE = IMAGES["prometheus"].reference
OPERATOR_DRIVER: str = _DATA["driver"]["gpu-operator"]["version"]
AMI_TOOLKIT: str = _DATA["ami"]["toolkit"]["version"]
VM_TOOLKIT: str = _DATA["vm"]["toolkit"]["version"]
NVKIND = entry(Nvkind, _DATA["vm"]["nvkind"])
DOWNLOADS: dict[str, Download] = {
    name: entry(Download, row, url=row["url"].format(version=row["version"])) for name, row in _DATA["vm"]["downloads"].items()
}
"""The files that a machine downloads at boot, by tool."""


def minor(version: str) -> tuple[int, ...]:
    """The parts of a minor version as numbers, so that "1.9" sorts before "1.13"."""
    return tuple(map(int, version.split(".")))


def daemonsets(provider: str, features: Collection[str] = ()) -> tuple[DaemonSet, ...]:
    """The DaemonSets that the provider itself runs on every node of a cluster with these `features`."""
    rows = [row for row in DAEMONSETS.values() if provider in row.providers or row.feature in features]
    replaced = {row.replaces for row in rows}
    return tuple(row for row in rows if row.name not in replaced)


def runner_gpu(reference: str | None) -> RunnerGpu | None:
    """The row of images/runner-gpu that an image was built from, by its tag; None for any other image.

    The workflow runner-image writes "build-" before the row.
    """
    match = re.fullmatch(rf"(?:.*/)?{RUNNER_GPU_REPOSITORY}:(?P<tag>[^@]+)(?:@.*)?", reference or "")
    built_from = (row for row in RUNNER_GPU.values() if match and match["tag"].removeprefix("build-").startswith(f"{row.name}-"))
    return next(built_from, None)


def image_cuda(reference: str | None) -> str:
    """The CUDA version that an image names ("12.8"): a tag with cuda12.8, or a tag of NVIDIA's images. Empty if it names none."""
    if row := runner_gpu(reference):
        return row.cuda.rpartition(".")[0]
    match = re.search(r"(?:(?:^|/)cuda:|:[^@/]*\bcuda)(?P<version>[0-9]+\.[0-9]+)", reference or "")
    return match["version"] if match else ""
