"""The runner image: a row of the matrix and a flavour, the commands that build, test and push it, and on which pools it runs.

The commands are for podman, docker and buildah.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Literal, cast, get_args

from fleet.facts.errors import InputError
from fleet.facts.record import Record
from fleet.facts.versions import RUNNER_GPU, RUNNER_GPU_REPOSITORY, RUNNER_IMAGE, RunnerGpu
from fleet.prove.image_fit import node_driver, unrunnable
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS, provider_of

Flavour = Literal["base", "runtime", "devel"]
"""As NVIDIA's images: the CUDA runtime; with its libraries and cuDNN; with compilers and headers."""


class Built(Record):
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
        return {"CUDA_IMAGE": getattr(self.row, self.flavour), "RUNNER_IMAGE": RUNNER_IMAGE, "CCACHE_VERSION": self.row.ccache}


def built(cuda: str, ubuntu: str, flavour: str) -> Built:
    """The image of a CUDA version ("12.1"), an Ubuntu release ("22.04") and a flavour. Raises InputError."""
    if (row := RUNNER_GPU.get(f"cuda{cuda}-ubuntu{ubuntu}")) is None:
        rows_text = ", ".join(f"CUDA {row.cuda.rpartition('.')[0]} on {row.ubuntu}" for row in RUNNER_GPU.values())
        raise InputError(f"CUDA {cuda} on Ubuntu {ubuntu} is not in the matrix; use {rows_text}, or add a row to versions.toml")
    if flavour not in get_args(Flavour):
        raise InputError(f"there is no flavour {flavour}; use one of {', '.join(get_args(Flavour))}")
    return Built(row, cast("Flavour", flavour))


FOLDER = Path(__file__).resolve().parent / "runner-gpu"
_TOOLS = ("podman", "docker", "buildah")


def find_tool(tool: str = "") -> str:
    """The wanted tool, or the first that works on this machine. Raises InputError if there is none."""
    if tool and tool not in _TOOLS:
        raise InputError(f"{tool} cannot build images here; use one of {', '.join(_TOOLS)}")
    for name in (tool,) if tool else _TOOLS:
        # A docker client needs its daemon.
        works = [name, "info" if name == "docker" else "--version"]
        if shutil.which(name) and subprocess.run(works, capture_output=True, check=False).returncode == 0:  # noqa: S603
            return name
    raise InputError(f"found no working {' or '.join((tool,) if tool else _TOOLS)}; install one, for docker start its daemon")


def build_command(tool: str, image: Built, overrides: Mapping[str, str]) -> list[str]:
    """The command that builds an image. `overrides` replace its build arguments, for example CUDA_IMAGE by a copy of it."""
    if unknown := sorted(set(overrides) - set(image.arguments)):
        raise InputError(f"the Dockerfile has no argument {', '.join(unknown)}; it has {', '.join(image.arguments)}")
    arguments = image.arguments | dict(overrides)
    # Only buildah builds without a cache of layers unless asked.
    layers = ["--layers"] if tool == "buildah" else []
    words = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    return [tool, "build", *layers, "--target", image.flavour, "--tag", image.local, *words, str(FOLDER)]


def run_test(tool: str, image: Built, *, gpu: bool = False) -> int:
    """Run images/runner-gpu/test.sh in a container of the image; with `gpu` also on the machine's GPU. Returns its status."""
    version = RUNNER_IMAGE.partition("@")[0].rpartition(":")[2]
    words = ["bash", "-s", "--", image.flavour, version, image.row.cuda, image.row.cudnn]
    if tool == "buildah":
        return _test_with_buildah(image, words)
    devices = {"docker": ["--gpus", "all"], "podman": ["--device", "nvidia.com/gpu=all"]}[tool] if gpu else []
    return _run_script([tool, "run", "--rm", "--interactive", "--network", "none", *devices, image.local, *words])


def _test_with_buildah(image: Built, words: Sequence[str]) -> int:
    command = ["buildah", "from", "--pull-never", image.local]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the command is ours
    if result.returncode:
        raise InputError(f"buildah has no image {image.local}; build it with make image first")
    container = result.stdout.strip()
    try:
        return _run_script(["buildah", "run", container, "--", *words])
    finally:
        subprocess.run(["buildah", "rm", container], capture_output=True, check=False)  # noqa: S603, S607


def _run_script(command: Sequence[str]) -> int:
    with (FOLDER / "test.sh").open() as script:
        return subprocess.run(command, stdin=script, check=False).returncode  # noqa: S603 - the command is ours


def push_script(fleet: Fleet, tool: str, image: Built, repository: str, build: str) -> str:
    """Shell commands that log in, tag and push, for each region of a fleet's clusters in clouds with a registry.

    `build` distinguishes builds of one image, because the tags of a registry should not change. Raises InputError for a fleet in
    no such cloud.
    """
    clusters = [settings for _, settings in fleet.clusters_by_name() if provider_of(settings).push]
    if not (regions := dict.fromkeys((settings.provider, settings.region) for settings in clusters)):
        raise InputError("the stack has no cluster on AWS or OCI, so no registry of a region; push to your own registry")
    tag = f"{image.tag}-{build}"
    texts = {"local": image.local, "repository": repository, "tag": tag, "name": f"{repository}:{tag}"}
    words = {"tool": tool} | {key: quote(text) for key, text in texts.items()}
    return "\n".join(
        f"# {provider.upper()} in {region}\n{PROVIDERS[provider].push.format(region=quote(region), **words)}"
        for provider, region in regions
    )


class Cell(Record):
    """One image on one pool. `driver` is "unknown" if no source names it; then only the GPU was compared."""

    pool: str
    gpus: str
    driver: str
    image: str
    verdict: str


def cells(fleet: Fleet) -> Iterator[Cell]:
    """Every image on every pool, in the order of the config and of the matrix."""
    for cluster, settings in fleet.clusters_by_name():
        for pool, of_pool in settings.pools.items():
            driver = node_driver(settings, pool)
            gpus = ", ".join(dict.fromkeys(machine.gpu.name for machine in of_pool.machines if machine.gpu))
            fits = "runs" if driver else "undeterminable: the driver is unknown; the GPU fits"
            for name, row in RUNNER_GPU.items():
                verdict = unrunnable(row.image, of_pool.machines, driver) or fits
                yield Cell(f"{cluster}/{pool}", gpus, driver or "unknown", name, verdict)
