"""A GPU job with checked arguments that is not placed in a pool yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fleet.facts.scheduling import MEDIUM_PRIORITY, RUNNER_PRIORITY
from fleet.jobs.arguments import AskArguments, JobArguments
from fleet.jobs.ask import GpuAsk, settled
from fleet.jobs.checked import checked
from fleet.jobs.naming import job_name
from fleet.jobs.rules import VISIBLE


@dataclass(frozen=True, slots=True)
class GpuJobSpec:
    """A job with checked arguments. `ask` is what it needs from a node. `given` has all its arguments."""

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
        """As given. The default is the class for queued jobs, and without a queue the class of runners. Neither preempts."""
        return self.given.priority_class or (MEDIUM_PRIORITY if self.given.queue else RUNNER_PRIORITY).name

    @property
    def env(self) -> dict[str, str]:
        """Variables with a value: the defaults, the cache's, and the job's own, which override the others."""
        return dict(self._usual_env()) | self.given.env

    def _usual_env(self) -> Iterator[tuple[str, str]]:
        yield "NVIDIA_DRIVER_CAPABILITIES", "compute,utility"
        if self.given.cache:
            yield "HF_HOME", f"{self.given.cache_path}/huggingface"
            yield "TORCH_HOME", f"{self.given.cache_path}/torch"
        visible = self.given.visible_devices
        if visible:
            yield VISIBLE, visible if isinstance(visible, str) else ",".join(map(str, range(self.ask.gpus)))


def gpu_job(task_id: str, image: str, **arguments: Any) -> GpuJobSpec:
    """A job from the arguments of `create_gpu_job` that do not name a place. Raises JobError with every problem."""
    checked_arguments = checked(JobArguments, {"task_id": task_id, "image": image, **arguments})
    return GpuJobSpec(settled(checked_arguments), checked_arguments)


def gpu_ask(**arguments: Any) -> GpuAsk:
    """What a job with these arguments of `AskArguments` needs from a node. Raises JobError with every problem."""
    return settled(checked(AskArguments, arguments))
