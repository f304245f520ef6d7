"""Which driver supports which GPU, and which of both CUDA needs.

A driver version starts with its branch: 580.159.03 is in R580. `data/gpus.csv` has the oldest and newest branch of each GPU,
`data/cuda.csv` the oldest branch and GPUs of each major version of CUDA: an image with any minor version runs there.
"""

import re
from collections.abc import Iterable
from typing import Annotated

from fleet.facts import hardware
from fleet.facts.record import Record
from fleet.facts.remark import said
from fleet.facts.tables import entry, rows
from fleet.facts.versions import minor
from fleet.settings.model import Model
from fleet.settings.refusals import matching, problem, refuse

_DRIVER = re.compile(r"([0-9]{3})\.[0-9]{2,3}(\.[0-9]{2})?")


def driver_version(version: str) -> str:
    """Validate the version of an NVIDIA driver. Raises a settings problem."""
    refuse(driver_version=not _DRIVER.fullmatch(version))
    return version


class Cuda(Record):
    """What a major version of CUDA needs of a node: the oldest driver branch, and the lowest compute capability; "" for any."""

    major: str
    least_driver: int
    least_capability: str


CUDA = {row["major"]: entry(Cuda, row) for row in rows("cuda.csv")}


class CudaFields(Model):
    """What a runner class says about the images of its jobs."""

    cuda: Annotated[str, matching("cuda_version", rf"({'|'.join(CUDA)})\.[0-9]", cuda=", ".join(CUDA))] | None = None
    """The newest CUDA version of the images that jobs use. The plan refuses a class if the driver or a GPU of its nodes is too
    old for it. Source: docs.nvidia.com, CUDA compatibility, minor version compatibility. Example: `"13.0"`"""


def lacks_cuda(version: str, machines: Iterable[hardware.Machine], driver: str | None) -> str:
    """Why an image with this CUDA does not run on one of the machines with this driver, or an empty string. None is unknown."""
    cuda = CUDA[version.partition(".")[0]]
    for machine in machines:
        gpu = machine.gpu
        if gpu is not None and cuda.least_capability and minor(gpu.compute_capability) < minor(cuda.least_capability):
            return said("old_gpu", gpu=gpu, machine=machine, cuda=cuda)
    old = driver is not None and branch(driver) < cuda.least_driver
    return said("old_driver", version=version, cuda=cuda, driver=driver) if old else ""


def cuda_unknown(version: str, where: str) -> str:
    """The verdict on a class whose driver no source names."""
    return said("unknown_cuda", version=version, where=where, least=CUDA[version.partition(".")[0]].least_driver)


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
    return at_least(machine.name, gpu) if gpu is not None and gpu.min_driver_branch is not None else ""


def undeterminable(machines: Iterable[hardware.Machine], fix: str) -> str:
    """The verdict on a pool whose node image has an unknown driver, with what to do."""
    known = sorted({limit for machine in machines if (limit := limits(machine))})
    return said("unknown_driver", branches=f" ({'; '.join(known)})" if known else "", fix=fix)


def require_driver(machine: hardware.Machine, version: str, *, at: tuple[str, ...], fix: str = "") -> None:
    """Refuse a driver that does not support the machine's GPU. `at` is its path in the settings, `fix` the advice to show."""
    if (gpu := machine.gpu) is None:
        return
    if gpu.max_driver_branch is not None and branch(version) > gpu.max_driver_branch:
        message = f"{at_most(machine.name, gpu)}; " + (fix or "use a driver of that branch")
        raise problem("driver_too_new", message, at=at, value=version)
    if gpu.min_driver_branch is not None and branch(version) < gpu.min_driver_branch:
        raise problem("driver_too_old", f"{at_least(machine.name, gpu)}; " + (fix or "use a newer driver"), at=at, value=version)
