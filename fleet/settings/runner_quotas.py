"""Quotas of runner classes: the most GPUs that several classes have together."""

from typing import Annotated

from pydantic import Field

from fleet.settings.model import Model, refusal, require_once


class RunnerQuota(Model):
    """The most GPUs of several runner classes together. A job beyond it waits in GitHub's queue, because no set asks for it.

    Kubernetes has no quota over several namespaces, and a class has its own. So the plan proves the sum of `scale.max`.
    """

    gpus: Annotated[int, Field(ge=0)]
    """The most GPUs of all these classes at one time, or shares of GPUs if their pools share them. Unit: GPUs or shares.
    Example: `4`"""
    runners: Annotated[tuple[str, ...], Field(min_length=1)]
    """The classes whose runners it counts. A class may be in several quotas. Example: `[gpu-t4, gpu-t4-x4]`"""

    @refusal
    def _each_class_once(self) -> None:
        """Refuse a class given twice: it counts once."""
        require_once("repeated_runner", "a runner class is given twice; remove one", self.runners, at=("runners",))
