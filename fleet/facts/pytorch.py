"""Releases of PyTorch with the CUDA that each is published for: the rows of `data/pytorch.csv`. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from fleet.facts.tables import entry, rows
from fleet.facts.versions import Image


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
