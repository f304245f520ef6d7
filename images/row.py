"""The image to build: a row of the matrix and a flavour, its name and its build arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fleet.facts.errors import InputError
from fleet.facts.versions import RUNNER_GPU, RUNNER_GPU_REPOSITORY, RUNNER_IMAGE, RunnerGpu

Flavour = Literal["base", "runtime", "devel"]
"""As NVIDIA's images: the CUDA runtime; with its libraries and cuDNN; with compilers and headers."""


@dataclass(frozen=True, slots=True)
class Built:
    """One image of the matrix."""

    row: RunnerGpu
    flavour: Flavour

    @property
    def tag(self) -> str:
        """The tag of its repository, without the id of the build: cuda12.1-ubuntu22.04-devel."""
        return f"{self.row.name}-{self.flavour}"

    @property
    def local(self) -> str:
        """Its name on the machine that builds it."""
        return f"{RUNNER_GPU_REPOSITORY}:{self.tag}"

    @property
    def arguments(self) -> dict[str, str]:
        """The build arguments of images/runner-gpu/Dockerfile."""
        return {
            "CUDA_IMAGE": getattr(self.row, self.flavour),
            "RUNNER_IMAGE": RUNNER_IMAGE,
            "CCACHE_VERSION": self.row.ccache,
        }


def built(cuda: str, ubuntu: str, flavour: str) -> Built:
    """The image of a CUDA version ("12.1"), an Ubuntu release ("22.04") and a flavour. Raises InputError."""
    row = RUNNER_GPU.get(f"cuda{cuda}-ubuntu{ubuntu}")
    if row is None:
        rows_text = ", ".join(f"CUDA {row.cuda.rpartition('.')[0]} on {row.ubuntu}" for row in RUNNER_GPU.values())
        raise InputError(f"CUDA {cuda} on Ubuntu {ubuntu} is not in the matrix; use {rows_text}, or add a row to versions.toml")
    for known_flavour in get_args(Flavour):
        if flavour == known_flavour:
            return Built(row, known_flavour)
    raise InputError(f"there is no flavour {flavour}; use one of {', '.join(get_args(Flavour))}")
