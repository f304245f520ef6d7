"""What a job needs from a node, with every default filled in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleet.facts.scheduling import GPU_RESOURCE, SHARED_SUFFIX
from fleet.jobs.arguments import AskArguments
from fleet.jobs.profiles import PROFILES, Amount
from fleet.settings.model import cpu_text, memory_text

MEMORY_A_GPU = 4096
"""The least memory request for each GPU, in MiB: the default of policy gpu-cpu-memory-limits."""


@dataclass(frozen=True, slots=True)
class GpuAsk:
    """What a job needs: `gpus` units of its resource, CPU in millicores, the rest in MiB.

    `shm` is the size of /dev/shm, 0 for none; `shm_given` is true if the caller gave it. `prefer` has weights by GPU type.
    `instance_types` are the only machines that it may run on, if it names any. `resource` is None if any name will do.
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
        """The acceptable GPU types with their weights, the most preferred first. The weight is 0 if there is no choice."""
        return dict(sorted(self.prefer, key=lambda each: (-each[1], each[0]))) or {self.gpu_type: 0}

    @property
    def unplaced_resource(self) -> str:
        """The resource to request without a pool, which would name it."""
        return self.resource or GPU_RESOURCE + (SHARED_SUFFIX if self.shared else "")

    def __str__(self) -> str:
        kinds = " or ".join(PROFILES[name].gpu for name in self.gpu_types)
        what = "share" if self.shared else "GPU"
        gpus = f"{self.gpus} {kinds} {what}{'' if self.gpus == 1 else 's'}"
        size = f"{cpu_text(self.cpu.request)} CPU, {memory_text(self.memory.request)}, {memory_text(self.scratch)} of disk"
        return f"{gpus}, {size}" + (f", on {' or '.join(self.instance_types)}" if self.instance_types else "")


def settled(given: AskArguments) -> GpuAsk:
    """The ask of checked arguments."""
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
    """MiB, with a request of at least 4Gi for each GPU if the limit is given."""
    usual = PROFILES[given.gpu_type].memory.times(given.gpu_count)
    return _amount(usual, given.memory, given.memory_request, MEMORY_A_GPU * given.gpu_count)


def cpu_of(given: AskArguments) -> Amount:
    """Millicores."""
    return _amount(PROFILES[given.gpu_type].cpu.times(given.gpu_count), given.cpu, given.cpu_request)


def _amount(usual: Amount, limit: int | None, request: int | None, least: int = 0) -> Amount:
    """The given amounts. Without a limit the profile's are used; with one, half of it is requested, and `least` if it allows."""
    if limit is None:
        return Amount(request or usual.request, usual.limit)
    return Amount(request or max(math.ceil(limit / 2), min(limit, least)), limit)


def shm_of(given: AskArguments, memory: Amount) -> int:
    """MiB of /dev/shm. The default is an eighth of the memory limit: 2Gi for a V100, 4Gi for an A100 (seed 001)."""
    return memory.limit // 8 if given.shm is None else given.shm


def is_shared(given: AskArguments) -> bool:
    """Whether the job asks for shares of GPUs: by `shared`, or by the name of their resource."""
    return given.shared or given.resource not in (None, GPU_RESOURCE)
