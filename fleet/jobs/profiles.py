"""What a job gets for each GPU where it asks for nothing else: CPU and memory by the model of GPU."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.facts import hardware

COUNTS = (1, 2, 4, 8)
"""GPUs of one job (seed 001). Machines have these numbers of GPUs, so another leaves GPUs of a node that nobody can use."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A request and a limit in one unit: millicores or MiB."""

    request: int
    limit: int

    def times(self, count: int) -> Amount:
        """The same for `count` GPUs."""
        return Amount(self.request * count, self.limit * count)


@dataclass(frozen=True, slots=True)
class Profile:
    """What goes with one GPU of a model: CPU in millicores, memory in MiB. Requests are half of the limits, as in seed 001."""

    gpu: str
    cpu: Amount
    memory: Amount


def _profile(gpu: str, cores: int, gibibytes: int) -> Profile:
    """The profile of a GPU by its limits."""
    return Profile(gpu, Amount(cores * 500, cores * 1000), Amount(gibibytes * 512, gibibytes * 1024))


PROFILES = {
    # Machines of one T4, A10G or L4 begin at 4 vCPU and 16 GiB (g4dn.xlarge, g5.xlarge, g6.xlarge).
    "t4": _profile("T4", 4, 12),
    # OCI's VM.GPU.A10.1 has 30 vCPU and 240 GiB, so an A10 gets what an A100 does.
    "a10": _profile("A10", 16, 32),
    "a10g": _profile("A10G", 4, 12),
    "l4": _profile("L4", 4, 12),
    # Seed 001: 8Gi and 4 CPU, up to 16Gi and 8.
    "v100": _profile("V100", 8, 16),
    # Seed 001: 16Gi and 8 CPU, up to 32Gi and 16.
    "a100": _profile("A100", 16, 32),
    # p5.4xlarge has 16 vCPU and 256 GiB for its one H100; models for 80 GiB of GPU memory are loaded through the host's.
    "h100": _profile("H100", 16, 64),
}
"""By the name that a job gives, in lower case."""


def accelerator(gpu_type: str) -> str:
    """The accelerator label's value of nodes with this GPU: nvidia-tesla-v100."""
    name = PROFILES[gpu_type].gpu
    return next(machine.gpu.accelerator for machine in hardware.machines() if machine.gpu and machine.gpu.name == name)
