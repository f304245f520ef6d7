"""Jobs in containers: `container` and `services` of a workflow, which run in a pod beside that of their runner."""

from typing import Annotated, Literal

from pydantic import Field

from fleet.settings.model import Cpu, Memory, Model
from fleet.settings.refusals import refusal, refuse

MAX_SET_NAME = 35
"""Maximum characters of the name of a set whose jobs run in containers. ARC adds 19, and GitHub's hooks cut that to 54 before
they add -workflow (runner-container-hooks 0.8.1, constants.ts): two runners would have one pod for their jobs."""
HOOK_VOLUMES, HOOK_FOLDERS = ("externals", "github", "work"), ("/__e/", "/__w/", "/github/")
"""Volumes of each job's pod, and where its containers have them (runner-container-hooks 0.8.1, src/k8s/utils.ts)."""
HOOK_CONTAINERS = ("fs-init", "job")
"""Containers of each job's pod (the same, src/k8s/index.ts and src/hooks/constants.ts)."""


class Services(Model):
    """The containers beside the job: its `services`, and a container action while it runs."""

    most: Annotated[int, Field(ge=0, le=10)] = 2
    """The most `services` of one job. The pod of a job with more is refused. Unit: services."""
    cpu: Cpu = 250
    """CPU of each service, and of a container action. Unit: cores, or millicores with m. Example: `1`"""
    memory: Memory = 512
    """Memory of each service, and of a container action: what the scheduler reserves, and the most that it may use.
    Example: `2Gi`"""


class ContainerFields(Model):
    """What a runner class says about the containers of its jobs."""

    containers: Literal["none", "job"] = "none"
    """Which containers jobs may start: `none`, or `job` for jobs with `container`, with or without `services`, in a pod of their
    own (docs/container-jobs.md). A class with `job` takes no other jobs."""
    services: Services = Field(default_factory=Services)
    """Number and size of the services of a job. Only with `containers: job`. Example: `{most: 1, memory: 2Gi}`"""
    pod_security: Literal["baseline", "restricted"] = "baseline"
    """The Pod Security Standard of the jobs' pods: `baseline` admits images that run as root, `restricted` does not. Only with
    `containers: job`. Example: `restricted`"""

    @property
    def in_containers(self) -> bool:
        """Whether its jobs run in pods of their own, beside that of their runner."""
        return self.containers == "job"

    @refusal
    def _container_rules(self) -> None:
        """Refuse settings of containers for a class that starts none."""
        for name, key in (("services", "services"), ("pod_security", "podSecurity")):
            refuse(key, containers_none=not self.in_containers and name in self.model_fields_set)
