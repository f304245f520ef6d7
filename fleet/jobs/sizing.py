"""From what people write of a task to the GPUs that it takes, and to the pool that has them (seed 001)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from fleet.jobs.ask import GpuAsk
from fleet.jobs.errors import JobRefusedError
from fleet.jobs.keywords import KEYWORDS, LARGE, TRAINING
from fleet.jobs.options import AskOptions
from fleet.jobs.place import Candidate, candidates, choose, remarks
from fleet.jobs.spec import gpu_ask
from fleet.jobs.words import Discounted, Found, read
from fleet.providers.fleet import Fleet


@dataclass(frozen=True, slots=True)
class MlWorkload:
    """Whether a text tells of machine learning: true if a keyword counts. It says which do, and which do not and why."""

    found: tuple[Found, ...]
    discounted: tuple[Discounted, ...]

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def keywords(self) -> tuple[str, ...]:
        """The keywords that count, each once."""
        return tuple(dict.fromkeys(each.keyword for each in self.found))

    def __str__(self) -> str:
        head = f"machine learning ({', '.join(self.keywords)})" if self else "no machine learning"
        return "\n".join([head, *(f"  {each}" for each in (*self.found, *self.discounted))])


def detect_ml_workload(requirements: str) -> MlWorkload:
    """Whether requirements tell of machine learning, by seed 001's keywords as words rather than as letters."""
    reading = read(requirements, KEYWORDS)
    return MlWorkload(reading.found, reading.discounted)


@dataclass(frozen=True, slots=True, eq=False)
class GpuRequirements(Mapping[str, Any]):
    """What a task takes: a mapping of arguments for `create_gpu_job`, with the reason.

    `branch` is "large model", "training" or "usual"; `found` are the words that chose it, `discounted` those that did not count.
    """

    gpu_count: int
    gpu_type: str
    memory: str
    branch: str
    found: tuple[Found, ...] = ()
    discounted: tuple[Discounted, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Arguments for `create_gpu_job`."""
        return {"gpu_count": self.gpu_count, "gpu_type": self.gpu_type, "memory": self.memory}

    def __getitem__(self, name: str) -> Any:
        return self.arguments()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arguments())

    def __len__(self) -> int:
        return len(self.arguments())

    def __str__(self) -> str:
        head = f"{self.gpu_count} x {self.gpu_type.upper()}, {self.memory}: {self.branch}"
        return "\n".join([head, *(f"  {each}" for each in (*self.found, *self.discounted))])


_LARGE: dict[str, Any] = {"gpu_count": 4, "gpu_type": "a100", "memory": "64Gi", "branch": "large model"}
_TRAINING: dict[str, Any] = {"gpu_count": 1, "gpu_type": "a100", "memory": "32Gi", "branch": "training"}
_USUAL: dict[str, Any] = {"gpu_count": 1, "gpu_type": "v100", "memory": "16Gi", "branch": "usual"}


def calculate_gpu_requirements(requirements: str) -> GpuRequirements:
    """GPUs and memory for requirements, by seed 001's three branches: a large model, training, anything else."""
    large, training = read(requirements, LARGE), read(requirements, TRAINING)
    if large.found:
        return GpuRequirements(**_LARGE, found=large.found, discounted=large.discounted)
    passed = (*large.discounted, *training.discounted)
    if training.found:
        return GpuRequirements(**_TRAINING, found=training.found, discounted=passed)
    return GpuRequirements(**_USUAL, discounted=passed)


@dataclass(frozen=True, slots=True)
class Sizing:
    """A task from its words to a pool: true if a pool holds what it takes. `refused` says why not, a line for each reason."""

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
            lines += [f"  {each}" for each in remarks(self.ask, self.chosen)]
        return "\n".join([*lines, *self.refused])


def size(
    fleet: Fleet, requirements: str, *, cluster: str | None = None, pool: str | None = None, **options: Unpack[AskOptions]
) -> Sizing:
    """What requirements take, and the pool of the stack that has it, if any. `options` say more of the job: spot, scratch, shm.

    Raises JobError for wrong options, or a cluster or pool that is not there.
    """
    workload = detect_ml_workload(requirements)
    if not workload:
        return Sizing(workload, None, None, None, ("nothing in it asks for a GPU",))
    found = calculate_gpu_requirements(requirements)
    ask = gpu_ask(**found.arguments(), **options)
    try:
        chosen = choose(candidates(fleet, ask, cluster=cluster, pool=pool), f"the task ({ask})")
    except JobRefusedError as error:
        return Sizing(workload, found, ask, None, tuple(str(error).splitlines()))
    return Sizing(workload, found, ask, chosen, ())
