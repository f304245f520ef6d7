"""What a job needs from a node, with every default filled in."""

import math

from fleet.facts.quantities import cpu_text, memory_text
from fleet.facts.record import Record
from fleet.facts.scheduling import GPU_RESOURCE, SHARED_SUFFIX
from fleet.jobs.arguments import AskArguments
from fleet.jobs.profiles import PROFILES
from fleet.prove.pod import Request

MEMORY_A_GPU = 4096
"""The least memory request for each GPU, in MiB: the default of policy gpu-cpu-memory-limits."""


class GpuAsk(Record):
    """What a job needs: `gpus` units of its resource, CPU in millicores, the rest in MiB.

    `shm` is the size of /dev/shm, 0 for none; `shm_given` is true if the caller gave it. `prefer` has weights by GPU type.
    `instance_types` are the only machines that it may run on, if it names any. `resource` is None if any name will do.
    """

    gpu_type: str
    gpus: int
    cpu: Request
    memory: Request
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
        return dict(sorted(self.prefer, key=lambda choice: (-choice[1], choice[0]))) or {self.gpu_type: 0}

    @property
    def unplaced_resource(self) -> str:
        """The resource to request without a pool, which would name it."""
        return self.resource or GPU_RESOURCE + (SHARED_SUFFIX if self.shared else "")

    def __str__(self) -> str:
        kinds = " or ".join(PROFILES[name].gpu for name in self.gpu_types)
        unit = "share" if self.shared else "GPU"
        gpus = f"{self.gpus} {kinds} {unit}{'' if self.gpus == 1 else 's'}"
        size = f"{cpu_text(self.cpu.request)} CPU, {memory_text(self.memory.request)}, {memory_text(self.scratch)} of disk"
        return f"{gpus}, {size}" + (f", on {' or '.join(self.instance_types)}" if self.instance_types else "")


def settled(arguments: AskArguments) -> GpuAsk:
    """The ask of checked arguments."""
    memory = memory_of(arguments)
    # The default is an eighth of the memory limit: 2Gi for a V100, 4Gi for an A100 (seed 001).
    shm = memory.limit // 8 if arguments.shm is None else arguments.shm
    sizes = (cpu_of(arguments), memory, arguments.scratch, shm, bool(arguments.shm))
    kind = (arguments.spot, is_shared(arguments), arguments.resource)
    choices = (tuple(arguments.prefer.items()), tuple(dict.fromkeys(arguments.instance_type)))
    return GpuAsk(arguments.gpu_type, arguments.gpu_count, *sizes, *kind, *choices)


def memory_of(arguments: AskArguments) -> Request:
    """MiB, with a request of at least 4Gi for each GPU if the limit is given."""
    usual = PROFILES[arguments.gpu_type].memory.times(arguments.gpu_count)
    return _amount(usual, arguments.memory, arguments.memory_request, MEMORY_A_GPU * arguments.gpu_count)


def cpu_of(arguments: AskArguments) -> Request:
    """Millicores."""
    return _amount(PROFILES[arguments.gpu_type].cpu.times(arguments.gpu_count), arguments.cpu, arguments.cpu_request)


def _amount(usual: Request, limit: int | None, request: int | None, least: int = 0) -> Request:
    """The given amounts. Without a limit the profile's are used; with one, half of it is requested, and `least` if it allows."""
    if limit is None:
        return Request(request or usual.request, usual.limit)
    return Request(request or max(math.ceil(limit / 2), min(limit, least)), limit)


def is_shared(arguments: AskArguments) -> bool:
    """Whether the job asks for shares of GPUs: by `shared`, or by the name of their resource."""
    return arguments.shared or arguments.resource not in (None, GPU_RESOURCE)
