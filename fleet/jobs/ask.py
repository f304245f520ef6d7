"""What a job asks of a node, all of it settled: sizes from profiles, requests from limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleet.facts.scheduling import GPU_RESOURCE, SHARED_SUFFIX
from fleet.jobs.arguments import AskArguments
from fleet.jobs.profiles import PROFILES, Amount
from fleet.settings.model import cpu_text, memory_text

MEMORY_A_GPU = 4096
"""MiB that a job requests at least for each GPU: the default of policy gpu-cpu-memory-limits."""


@dataclass(frozen=True, slots=True)
class GpuAsk:
    """What a job asks: `gpus` units of its resource, CPU in millicores, the rest in MiB.

    `shm` is the size of /dev/shm, 0 for none; `shm_given` says that the caller wants it so. `prefer` has models of GPU by weight,
    `instance_types` the only machines it may run on, if it names any. `resource` is None where whole GPUs or any shares do.
    """

    gpu_type: str
    gpus: int
    cpu: Amount
    memory: Amount
    scratch: int
    shm: int
    shm_given: bool = False
    spot: bool = False
    shared: bool = False
    resource: str | None = None
    prefer: tuple[tuple[str, int], ...] = ()
    instance_types: tuple[str, ...] = ()

    @property
    def gpu_types(self) -> dict[str, int]:
        """The models of GPU that do, the most wanted first, with their weights; 0 where there is no choice."""
        return dict(sorted(self.prefer, key=lambda each: (-each[1], each[0]))) or {self.gpu_type: 0}

    @property
    def unplaced_resource(self) -> str:
        """The resource to ask for where no pool says how its GPUs are called."""
        return self.resource or GPU_RESOURCE + (SHARED_SUFFIX if self.shared else "")

    def __str__(self) -> str:
        kinds = " or ".join(PROFILES[name].gpu for name in self.gpu_types)
        what = "share" if self.shared else "GPU"
        gpus = f"{self.gpus} {kinds} {what}{'' if self.gpus == 1 else 's'}"
        size = f"{cpu_text(self.cpu.request)} CPU, {memory_text(self.memory.request)}, {memory_text(self.scratch)} of disk"
        return f"{gpus}, {size}" + (f", on {' or '.join(self.instance_types)}" if self.instance_types else "")


def settled(given: AskArguments) -> GpuAsk:
    """The ask that arguments make."""
    memory = memory_of(given)
    return GpuAsk(
        gpu_type=given.gpu_type,
        gpus=given.gpu_count,
        cpu=cpu_of(given),
        memory=memory,
        scratch=given.scratch,
        shm=shm_of(given, memory),
        shm_given=bool(given.shm),
        spot=given.spot,
        shared=is_shared(given),
        resource=given.resource,
        prefer=tuple(given.prefer.items()),
        instance_types=tuple(dict.fromkeys(given.instance_type)),
    )


def memory_of(given: AskArguments) -> Amount:
    """MiB: the profile's for each GPU; of a limit that is given the half is requested, and no less than each GPU wants."""
    usual = PROFILES[given.gpu_type].memory.times(given.gpu_count)
    if given.memory is None:
        return Amount(given.memory_request or usual.request, usual.limit)
    least = min(given.memory, MEMORY_A_GPU * given.gpu_count)
    return Amount(given.memory_request or max(math.ceil(given.memory / 2), least), given.memory)


def cpu_of(given: AskArguments) -> Amount:
    """Millicores: the profile's for each GPU; of a limit that is given the half is requested."""
    usual = PROFILES[given.gpu_type].cpu.times(given.gpu_count)
    if given.cpu is None:
        return Amount(given.cpu_request or usual.request, usual.limit)
    return Amount(given.cpu_request or math.ceil(given.cpu / 2), given.cpu)


def shm_of(given: AskArguments, memory: Amount) -> int:
    """MiB of /dev/shm: an eighth of the memory limit if nothing is said, which gives V100 2Gi and A100 4Gi (seed 001)."""
    return memory.limit // 8 if given.shm is None else given.shm


def is_shared(given: AskArguments) -> bool:
    """Whether the job is content with shares of GPUs: it says so, or names their resource."""
    return given.shared or given.resource not in (None, GPU_RESOURCE)
