"""Which driver supports which GPU.

A driver version starts with its branch: 580.159.03 is in R580. `data/gpus.csv` has the oldest and newest branch of each GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet.facts import hardware
from fleet.settings.model import problem

_DRIVER = re.compile(r"([0-9]{3})\.[0-9]{2,3}(\.[0-9]{2})?")


def driver_version(version: str) -> str:
    """Validate the version of an NVIDIA driver. Raises a settings problem."""
    if not _DRIVER.fullmatch(version):
        raise problem("driver_version", "not a driver's version; write it as nvidia-smi shows it, for example 580.159.03")
    return version


def branch(version: str) -> int:
    """The branch of a driver: 580.159.03 → 580."""
    return int(version.partition(".")[0])


def at_most(machine: str, gpu: hardware.Gpu) -> str:
    """A sentence with the newest branch that supports a machine's GPU."""
    return f"{gpu.name} ({machine}) works with driver branch R{gpu.max_driver_branch} or older"


def at_least(machine: str, gpu: hardware.Gpu) -> str:
    """A sentence with the oldest branch that supports a machine's GPU."""
    return f"{gpu.name} ({machine}) needs driver branch R{gpu.min_driver_branch} or newer"


def limits(machine: hardware.Machine) -> str:
    """The driver branches that support a machine's GPU, as text; empty if no limit is known."""
    gpu = machine.gpu
    if gpu is not None and gpu.max_driver_branch is not None:
        return at_most(machine.name, gpu)
    if gpu is not None and gpu.min_driver_branch is not None:
        return at_least(machine.name, gpu)
    return ""


def undeterminable(machines: Iterable[hardware.Machine], fix: str) -> str:
    """The verdict on a pool whose node image has an unknown driver, with what to do."""
    known = sorted({limit for machine in machines if (limit := limits(machine))})
    branches = f" ({'; '.join(known)})" if known else ""
    return (
        f"compatibility of driver, GPU{branches} and CUDA images is undeterminable: no source names the NVIDIA driver of its "
        f"node image; {fix}"
    )


def require_driver(machine: hardware.Machine, version: str, *, at: tuple[str, ...], fix: str = "") -> None:
    """Refuse a driver that does not support the machine's GPU. `at` is its path in the settings, `fix` the advice to show."""
    gpu = machine.gpu
    if gpu is None:
        return
    if gpu.max_driver_branch is not None and branch(version) > gpu.max_driver_branch:
        message = f"{at_most(machine.name, gpu)}; " + (fix or "use a driver of that branch")
        raise problem("driver_too_new", message, at=at, value=version)
    if gpu.min_driver_branch is not None and branch(version) < gpu.min_driver_branch:
        raise problem("driver_too_old", f"{at_least(machine.name, gpu)}; " + (fix or "use a newer driver"), at=at, value=version)
