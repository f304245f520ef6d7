"""The commands that build and test an image, for podman, docker and buildah."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.versions import RUNNER_IMAGE
from images.row import Built

FOLDER = Path(__file__).resolve().parent / "runner-gpu"
_TOOLS = ("podman", "docker", "buildah")
_WORKS = {"docker": ["docker", "info"]}
"""A docker client needs its daemon."""


def find_tool(tool: str = "") -> str:
    """The wanted tool, or the first that works on this machine. Raises InputError if there is none."""
    if tool and tool not in _TOOLS:
        raise InputError(f"{tool} cannot build images here; use one of {', '.join(_TOOLS)}")
    for name in (tool,) if tool else _TOOLS:
        if shutil.which(name) and _succeeds(_WORKS.get(name, [name, "--version"])):
            return name
    raise InputError(f"found no working {' or '.join((tool,) if tool else _TOOLS)}; install one, for docker start its daemon")


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - a fixed command


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
    result = subprocess.run(  # noqa: S603 - the command is ours
        ["buildah", "from", "--pull-never", image.local],  # noqa: S607 - the tool on PATH
        capture_output=True,
        text=True,
        check=False,
    )
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
