"""Runner classes whose image has a CUDA that the newest PyTorch is not published for. The releases are in `data/pytorch.csv`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from fleet.facts.tables import entry, rows
from fleet.facts.versions import RUNNER_GPU, Image
from fleet.prove.image_fit import node_driver, runner_gpu, unrunnable
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.runner import PodRunner

_CUDA = re.compile(r"(?:(?:^|/)cuda:|:[^@/]*\bcuda)(?P<version>[0-9]+\.[0-9]+)")


@dataclass(frozen=True, slots=True)
class Build:
    """A minor release, such as 2.14, for one CUDA, such as 13.2. PyPI has only the `default` build of a release.

    `released` is the day of its first file on PyPI. `least_driver` is the oldest branch of NVIDIA's driver for that major
    version of CUDA. The build has code for the compute capabilities from `least_capability` to `most_capability`. An empty text
    means not known; with a `least_capability` it means that drivers compile the code for newer GPUs.
    """

    release: str
    released: date
    cuda: str
    default: bool
    least_driver: int
    least_capability: str
    most_capability: str

    @property
    def image(self) -> Image:
        """What a GPU and a driver need to run the build. All releases have builds for x86_64."""
        return Image(self.release, ("x86_64",), self.least_capability, self.least_driver, self.most_capability)


BUILDS = tuple(entry(Build, row) for row in rows("pytorch.csv"))
"""Every build for CUDA 12 and newer, the oldest release first."""


def current(day: date) -> tuple[Build, ...]:
    """The builds of the newest release on a day. A release counts from its day on. Empty before the first of the table."""
    published = [build for build in BUILDS if build.released <= day]
    return tuple(build for build in published if build.release == published[-1].release)


def last_release(cuda: str, day: date) -> str:
    """The newest release on a day that has a build for a CUDA version ("12.8"). Empty if the table has none."""
    return next((build.release for build in reversed(BUILDS) if build.cuda == cuda and build.released <= day), "")


def image_cuda(reference: str | None) -> str:
    """The CUDA version that an image names ("12.8"): a tag with cuda12.8, or a tag of NVIDIA's images. Empty if it names none."""
    if row := runner_gpu(reference):
        return row.cuda.rpartition(".")[0]
    match = _CUDA.search(reference or "")
    return match["version"] if match else ""


def remarks(fleet: Fleet, day: date) -> Iterator[str]:
    """A line for each runner class whose image has a CUDA that the newest PyTorch of the day is not published for."""
    for name, cluster in fleet.clusters_by_name():
        for runner_set, runner in cluster.pod_runners.items():
            if (cuda := image_cuda(cluster.with_image(runner).image)) and (why := _outdated(cluster, runner, cuda, day)):
                yield f"{name}/{runner_set}: {why}"


def _outdated(cluster: Cluster, runner: PodRunner, cuda: str, day: date) -> str:
    builds = current(day)
    if not builds or cuda in {build.cuda for build in builds}:
        return ""
    last = last_release(cuda, day)
    until = f"PyTorch {last} was the last release for it" if last else "no release of PyTorch is for it"
    having = f"PyTorch {builds[0].release} is for CUDA {' and '.join(build.cuda for build in builds)}"
    return f"its image has CUDA {cuda}: {until}, and {having}; {_advice(cluster, runner, builds)}"


def _advice(cluster: Cluster, runner: PodRunner, builds: tuple[Build, ...]) -> str:
    """Which CUDA to build the image for, so that it runs on every pool of the class."""
    for build in sorted(builds, key=lambda release: not release.default):
        wrong = [
            why
            for pool in runner.ordered
            if (why := unrunnable(build.image, cluster.pools[pool].machines, node_driver(cluster, pool)))
        ]
        if not wrong:
            row = next((row for row in RUNNER_GPU.values() if row.cuda.startswith(f"{build.cuda}.")), None)
            how = f"make image CUDA={build.cuda} UBUNTU={row.ubuntu}" if row else f"an image with CUDA {build.cuda}"
            return f"to build that release, use {how} (docs/runner-image.md#pytorch)"
    return "none of its builds runs on the pools of this class, so keep the image and that release (docs/runner-image.md#pytorch)"
