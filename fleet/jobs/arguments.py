"""The arguments of a job. Each is checked here by itself; `rules.py` checks how they go together."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.facts.pods import RUNNER_UID
from fleet.jobs import fields
from fleet.jobs.profiles import DEFAULT_GPU_TYPE
from fleet.settings.model import Cpu, Memory

WORKSPACE, MODELS = "/workspace", "/models"


class AskArguments(BaseModel):
    """What a job needs from a node."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    gpu_count: fields.GpuCount = 1
    gpu_type: fields.GpuType = DEFAULT_GPU_TYPE
    memory: Memory | None = None
    cpu: Cpu | None = None
    memory_request: Memory | None = None
    cpu_request: Cpu | None = None
    scratch: Memory = 20 * 1024
    shm: fields.SharedMemory | None = None
    spot: bool = False
    shared: bool = False
    resource: fields.Resource | None = None
    prefer: fields.Preferences = Field(default_factory=dict)
    instance_type: fields.Names = ()


class JobArguments(AskArguments):
    """A whole job."""

    task_id: fields.TaskId
    image: fields.Image
    command: fields.Words = ()
    args: fields.Words = ()
    env: fields.Env = Field(default_factory=dict)
    secret_env: fields.SecretEnv = Field(default_factory=dict)
    visible_devices: fields.Devices = None
    namespace: fields.ShortName | None = None
    workspace: fields.ObjectName | None = None
    workspace_path: fields.MountPath = WORKSPACE
    cache: fields.ObjectName | None = None
    cache_path: fields.MountPath = MODELS
    cache_read_only: bool = False
    queue: fields.ShortName | None = None
    priority_class: fields.PriorityName | None = None
    deadline: fields.Deadline = 2 * 3600
    backoff_limit: int = Field(default=3, ge=0, le=100)
    ttl: fields.Time = 3600
    restart_policy: Literal["OnFailure", "Never"] | None = None
    # The user of the runners, because an MPS server serves one user at a time.
    user: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    group: int = Field(default=RUNNER_UID, ge=1, le=2**31 - 1)
    pull_secrets: fields.ObjectNames = ()
    labels: fields.Labels = Field(default_factory=dict)
    annotations: fields.Annotations = Field(default_factory=dict)
