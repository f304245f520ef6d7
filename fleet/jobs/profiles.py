"""The CPU and memory that a job gets for each GPU if it names no amounts, by GPU model."""

from fleet.facts import hardware
from fleet.facts.record import Record
from fleet.prove.pod import Request

COUNTS = (1, 2, 4, 8)
"""GPU counts of a job (seed 001). Machines have these counts; any other count leaves GPUs of a node idle."""
DEFAULT_GPU_TYPE = "v100"
"""The GPU type of a job that names neither a GPU type nor a pool (seed 001)."""


class Profile(Record):
    """Defaults for one GPU of a model: CPU in millicores, memory in MiB. Requests are half of the limits, as in seed 001.

    `gpu` is the model's name in gpus.csv ("RTX 3090"), `accelerator` the value of the accelerator label on its nodes.
    """

    gpu: str
    accelerator: str
    cpu: Request
    memory: Request


def gpu_type(gpu: str) -> str:
    """The GPU type that a job names for a model of gpus.csv: "rtx-3090" for "RTX 3090"."""
    return gpu.lower().replace(" ", "-")


_LIMITS = {
    # Seed 001: requests of 4 CPU and 8Gi, limits of 8 and 16Gi.
    "V100": (8, 16),
    # Seed 001: requests of 8 CPU and 16Gi, limits of 16 and 32Gi.
    "A100": (16, 32),
    # VM.GPU.A10.1 has 30 vCPUs and 240 GiB for one A10, so an A10 gets the amounts of an A100.
    "A10": (16, 32),
}
"""CPU cores and GiB where the limits are not derived from the machines."""
_OWN_LIMITS = (8, 16)
"""Seed 001's, for a model that only own machines have: no table has their share."""
_MOST_CORES, _MOST_GIBIBYTES = 16, 64
"""The largest derived limits. A model for the 80 GiB of an H100 is loaded through host memory."""


def _profile(gpu: hardware.Gpu) -> Profile:
    """The profile of a model. Derived limits come from the machine with the smallest share for each GPU.

    They are all vCPUs and three quarters of the memory of that share, so the requests leave room for the DaemonSets.
    """
    machines = [machine for machine in hardware.machines() if machine.gpu == gpu]
    cores = min((machine.vcpus // machine.gpus for machine in machines), default=_OWN_LIMITS[0])
    gibibytes = min((machine.memory_mib * 3 // 4 // machine.gpus // 1024 for machine in machines), default=_OWN_LIMITS[1])
    cores, gibibytes = _LIMITS.get(gpu.name, (min(cores, _MOST_CORES), min(gibibytes, _MOST_GIBIBYTES)))
    return Profile(gpu.name, gpu.accelerator, Request(cores * 500, cores * 1000), Request(gibibytes * 512, gibibytes * 1024))


_MODELS = {gpu_type(gpu.name): gpu for gpu in hardware.gpus().values() if gpu.vendor == "nvidia"}
PROFILES = {name: _profile(_MODELS[name]) for name in sorted(_MODELS)}
"""Profiles by GPU type: one for each NVIDIA model of the hardware table."""
