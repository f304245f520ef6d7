"""A GPU job with checked arguments that is not placed in a pool yet."""

import hashlib
import re
from typing import Any, Literal

from fleet.facts.record import Record
from fleet.facts.scheduling import MEDIUM_PRIORITY, RUNNER_PRIORITY
from fleet.jobs.arguments import JobArguments
from fleet.jobs.ask import GpuAsk, settled
from fleet.jobs.rules import VISIBLE, checked

_LONGEST = 57
"""A pod's name is its Job's name, a hyphen and five characters. It is a host name too, of at most 63 characters (RFC 1123)."""
_HASH = 8


def job_name(task_id: str) -> str:
    """The Job's name for a task: the task's name if it is a DNS label of at most 57 characters.

    Otherwise its valid characters, and eight hexadecimal digits of its SHA-256. So ml_task and ml-task are two Jobs, and the same
    task always has the same name.
    """
    if len(task_id) <= _LONGEST and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", task_id):
        return task_id
    digest = hashlib.sha256(task_id.encode()).hexdigest()[:_HASH]
    readable = re.sub(r"[^a-z0-9]+", "-", task_id.lower())[: _LONGEST - _HASH - 1].strip("-") or "job"
    return f"{readable}-{digest}"


class GpuJobSpec(Record):
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
        usual, cache = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}, self.given.cache_path
        if self.given.cache:
            usual |= {"HF_HOME": f"{cache}/huggingface", "TORCH_HOME": f"{cache}/torch"}
        if visible := self.given.visible_devices:
            usual[VISIBLE] = visible if isinstance(visible, str) else ",".join(map(str, range(self.ask.gpus)))
        return usual | self.given.env


def gpu_job(task_id: str, image: str, **arguments: Any) -> GpuJobSpec:
    """A job from the arguments of `create_gpu_job` that do not name a place. Raises JobError with every problem."""
    checked_arguments = checked({"task_id": task_id, "image": image, **arguments})
    return GpuJobSpec(settled(checked_arguments), checked_arguments)
