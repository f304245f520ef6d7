"""From the description of a task to the GPUs that it needs, and to a pool that has them (seed 001)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from fleet.jobs.ask import GpuAsk
from fleet.jobs.errors import JobRefusedError
from fleet.jobs.keywords import GpuRequirements, MlWorkload, calculate_gpu_requirements, detect_ml_workload
from fleet.jobs.options import AskOptions
from fleet.jobs.place import Candidate, candidates, choose, pool_options, remarks
from fleet.jobs.spec import gpu_ask
from fleet.providers.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Sizing:
    """A task, what it needs, and the pool for it. It is true if a pool holds the task. `refused` has a line for each reason."""

    workload: MlWorkload
    requirements: GpuRequirements | None
    ask: GpuAsk | None
    chosen: Candidate | None
    refused: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.chosen is not None

    def __str__(self) -> str:
        lines = [str(self.workload), *([str(self.requirements)] if self.requirements else [])]
        if self.chosen is not None and self.ask is not None:
            lines.append(f"in {self.chosen.name}, {self.chosen.price} USD/h a node: {self.ask}")
            lines += [f"  {remark}" for remark in remarks(self.ask, self.chosen)]
        return "\n".join([*lines, *self.refused])


def size(
    fleet: Fleet, requirements: str, *, cluster: str | None = None, pool: str | None = None, **options: Unpack[AskOptions]
) -> Sizing:
    """What a description needs, and the pool of the stack that has it. `options` say more about the job: spot, scratch, shm.

    A `pool` decides the GPU type. Raises JobError for wrong options, and for a cluster or pool that does not exist.
    """
    workload = detect_ml_workload(requirements)
    if not workload:
        return Sizing(workload, None, None, None, ("nothing in it asks for a GPU",))
    amounts = calculate_gpu_requirements(requirements)
    ask = gpu_ask(**{**amounts.arguments, **pool_options(fleet, cluster, pool), **options})
    try:
        chosen = choose(candidates(fleet, ask, cluster=cluster, pool=pool), f"the task ({ask})")
    except JobRefusedError as error:
        return Sizing(workload, amounts, ask, None, tuple(str(error).splitlines()))
    return Sizing(workload, amounts, ask, chosen, ())
