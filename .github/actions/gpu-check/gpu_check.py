"""Checks the GPUs of a runner with PyTorch: their number, whether this build supports them, and whether they compute correctly.

Prints its findings, one per line. Exit status: 0 if all checks pass, 1 with GitHub annotations if not, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

SIZE = 1000
"""Rows and columns of the matrix that is multiplied."""
TOLERANCE = 1e-3
"""Largest relative error against double precision. TF32, which a caller may have enabled, keeps ten bits of each factor."""


def findings(torch: Any) -> Iterator[str]:
    """Versions and devices, one per line."""
    yield f"PyTorch version: {torch.__version__}"
    yield f"CUDA available: {torch.cuda.is_available()}"
    yield f"CUDA version: {torch.version.cuda}"
    if torch.cuda.is_available():
        yield f"Device count: {torch.cuda.device_count()}"
        for index in range(torch.cuda.device_count()):
            major, minor = torch.cuda.get_device_capability(index)
            memory = torch.cuda.get_device_properties(index).total_memory // 2**20
            yield f"Device {index}: {torch.cuda.get_device_name(index)}, capability {major}.{minor}, {memory} MiB"


def faults(torch: Any, gpus: int) -> Iterator[str]:
    """The faults, each with its fix. `gpus` is the number of GPUs that the runner should have."""
    if torch.version.cuda is None:
        yield f"PyTorch {torch.__version__} is built without CUDA; install a build with it"
        return
    if not torch.cuda.is_available():
        yield f"no GPU that CUDA {torch.version.cuda} can use; compare it with the driver's CUDA version in nvidia-smi"
        return
    if (count := torch.cuda.device_count()) != gpus:
        yield f"{count} GPUs, not {gpus}; check the GPUs of the runner set, or set gpus"
    archs = tuple(torch.cuda.get_arch_list())
    for index in range(count):
        capability = tuple(torch.cuda.get_device_capability(index))
        name = torch.cuda.get_device_name(index)
        if not driven(archs, capability):
            kernels = " ".join(archs) or "none"
            yield f"device {index}, {name}: this PyTorch has no code for {capability[0]}.{capability[1]} (it has: {kernels})"
            continue
        error = matmul_error(torch, index)
        # `not <=` also catches NaN, which is never at most the tolerance.
        if not error <= TOLERANCE:
            yield f"device {index}, {name}: a {SIZE}x{SIZE} product is wrong by {error:.2g}; stop using the machine"


def driven(archs: Iterable[str], capability: tuple[int, ...]) -> bool:
    """Whether a build has code for a GPU. `archs` as PyTorch lists them: sm_86 is machine code, the driver compiles compute_90.

    Machine code runs on GPUs of its major version with the same or a newer minor; with "a" at the end, only on that version.
    Code that the driver compiles runs on any GPU that is not older (CUDA programming guide, compute capabilities).
    """
    return any(_runs(arch, capability) for arch in archs)


def _runs(arch: str, capability: tuple[int, ...]) -> bool:
    kind, _, digits = arch.rstrip("af").partition("_")
    of = (int(digits[:-1]), int(digits[-1]))
    if arch.endswith("a"):
        return of == capability
    return of <= capability and (kind == "compute" or of[0] == capability[0])


def matmul_error(torch: Any, index: int) -> float:
    """Relative error of a matrix product on a GPU against the same in double precision on the CPU."""
    torch.manual_seed(0)
    x = torch.randn(SIZE, SIZE)
    on_gpu = x.to(f"cuda:{index}")
    product = torch.matmul(on_gpu, on_gpu).cpu().double()
    want = torch.matmul(x.double(), x.double())
    return float((product - want).norm() / want.norm())


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the GPUs, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpus", type=int, default=1, help="how many GPUs the runner should have")
    gpus: int = parser.parse_args(arguments).gpus
    try:
        torch = import_module("torch")
    except ImportError as error:
        return refuse([f"PyTorch cannot be imported ({error}); use the action setup-torch before this one"])
    for line in findings(torch):
        sys.stdout.write(f"{line}\n")
    if not (problems := list(faults(torch, gpus))):
        sys.stdout.write("GPU computation successful\n")
    return refuse(problems)


def refuse(problems: Iterable[str]) -> int:
    """Annotate faults; 1 if there are any, else 0."""
    status = 0
    for fault in problems:
        line = fault.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        sys.stdout.write(f"::error title=gpu-check::{line}\n")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
