"""The arguments of a job. Each is checked here by itself; `rules.py` checks how they go together."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.facts.pods import RUNNER_UID
from fleet.jobs.fields import (
    Annotations,
    Deadline,
    Devices,
    Env,
    GpuCount,
    GpuType,
    Image,
    Labels,
    MountPath,
    Names,
    ObjectName,
    ObjectNames,
    Preferences,
    PriorityName,
    Resource,
    SecretEnv,
    SharedMemory,
    ShortName,
    TaskId,
    Time,
    Words,
)
from fleet.jobs.profiles import DEFAULT_GPU_TYPE
from fleet.settings.model import Cpu, Memory

WORKSPACE, MODELS = "/workspace", "/models"


class AskArguments(BaseModel):
    """What a job needs from a node."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpu_count: GpuCount = 1
    gpu_type: GpuType = DEFAULT_GPU_TYPE
    memory: Memory | None = None
    cpu: Cpu | None = None
    memory_request: Memory | None = None
    cpu_request: Cpu | None = None
    scratch: Memory = 20 * 1024
    shm: SharedMemory | None = None
    spot: bool = False
    shared: bool = False
    resource: Resource | None = None
    prefer: Preferences = Field(default_factory=dict)
    instance_type: Names = ()


class JobArguments(AskArguments):
    """A whole job."""

    task_id: TaskId
    image: Image
    command: Words = ()
    args: Words = ()
    env: Env = Field(default_factory=dict)
    secret_env: SecretEnv = Field(default_factory=dict)
    visible_devices: Devices = None
    namespace: ShortName | None = None
    workspace: ObjectName | None = None
    workspace_path: MountPath = WORKSPACE
    cache: ObjectName | None = None
    cache_path: MountPath = MODELS
    cache_read_only: bool = False
    queue: ShortName | None = None
    priority_class: PriorityName | None = None
    deadline: Deadline = 2 * 3600
    backoff_limit: int = Field(default=3, ge=0, le=100)
    ttl: Time = 3600
    restart_policy: Literal["OnFailure", "Never"] | None = None
    # The user of the runners, because an MPS server serves one user at a time.
    user: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    group: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    pull_secrets: ObjectNames = ()
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
