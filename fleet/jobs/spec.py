"""A GPU job with checked arguments that is not placed in a pool yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

from fleet.facts.scheduling import MEDIUM_PRIORITY, RUNNER_PRIORITY
from fleet.jobs.arguments import JobArguments
from fleet.jobs.ask import GpuAsk, settled
from fleet.jobs.checked import ask_arguments, job_arguments
from fleet.jobs.naming import job_name
from fleet.jobs.options import AskOptions, JobOptions
from fleet.jobs.profiles import DEFAULT_GPU_TYPE
from fleet.jobs.rules import VISIBLE


@dataclass(frozen=True, slots=True)
class GpuJobSpec:
    """A job with checked arguments: `ask` is what it needs from a node, `given` are all its arguments."""

    ask: GpuAsk
    given: JobArguments

    @property
    def name(self) -> str:
        """The Job's name."""
        return job_name(self.given.task_id)

    @property
    def restart_policy(self) -> Literal["OnFailure", "Never"]:
        """As given. The default is OnFailure (seed 001), and Never with spot, so that a lost machine is not a failure."""
        return self.given.restart_policy or ("Never" if self.ask.spot else "OnFailure")

    @property
    def priority_class(self) -> str:
        """As given. The default is the class of queued jobs with a queue, otherwise the runners'. Neither preempts other pods."""
        return self.given.priority_class or (MEDIUM_PRIORITY if self.given.queue else RUNNER_PRIORITY).name

    @property
    def env(self) -> dict[str, str]:
        """Variables with a value: the defaults, those of the cache, and the job's own, which win."""
        return dict(self._usual_env()) | self.given.env

    def _usual_env(self) -> Iterator[tuple[str, str]]:
        yield "NVIDIA_DRIVER_CAPABILITIES", "compute,utility"
        if self.given.cache:
            yield "HF_HOME", f"{self.given.cache_path}/huggingface"
            yield "TORCH_HOME", f"{self.given.cache_path}/torch"
        visible = self.given.visible_devices
        if visible:
            yield VISIBLE, visible if isinstance(visible, str) else ",".join(map(str, range(self.ask.gpus)))


def gpu_job(
    task_id: str,
    image: str,
    gpu_count: int = 1,
    gpu_type: str = DEFAULT_GPU_TYPE,
    memory: str | None = None,
    cpu: str | float | None = None,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    **options: Unpack[JobOptions],
) -> GpuJobSpec:
    """A job from its arguments. Raises JobError with every problem.

    `memory` and `cpu` are limits of the whole job ("16Gi", "8000m"); the defaults are those of the GPU's profile.
    """
    given = job_arguments(
        {
            "task_id": task_id,
            "image": image,
            "gpu_count": gpu_count,
            "gpu_type": gpu_type,
            "memory": memory,
            "cpu": cpu,
            "command": command,
            "env": {} if env is None else env,
            **options,
        }
    )
    return GpuJobSpec(settled(given), given)


def gpu_ask(
    gpu_count: int = 1,
    gpu_type: str = DEFAULT_GPU_TYPE,
    memory: str | None = None,
    cpu: str | float | None = None,
    **options: Unpack[AskOptions],
) -> GpuAsk:
    """What a job of these arguments would need from a node. Raises JobError with every problem."""
    given: dict[str, Any] = {"gpu_count": gpu_count, "gpu_type": gpu_type, "memory": memory, "cpu": cpu, **options}
    return settled(ask_arguments(given))
