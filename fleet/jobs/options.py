"""The further arguments of a job by name and type, for editors and type checkers; docs/jobs.md says what each does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class AskOptions(TypedDict, total=False):
    """What else a job may ask of a node. Amounts are texts as Kubernetes writes them: "16Gi", "500m"."""

    memory_request: str | None
    cpu_request: str | float | None
    scratch: str
    shm: str | Literal[0] | None
    spot: bool
    shared: bool
    resource: str | None
    prefer: Mapping[str, int]
    instance_type: str | Sequence[str]


class JobOptions(AskOptions, total=False):
    """What else a job may say. Times are seconds, or texts with a unit: "2h"."""

    args: Sequence[str]
    secret_env: Mapping[str, tuple[str, str]]
    visible_devices: str | Sequence[int] | bool | None
    namespace: str | None
    workspace: str | None
    workspace_path: str
    cache: str | None
    cache_path: str
    cache_read_only: bool
    queue: str | None
    priority_class: str | None
    deadline: int | str
    backoff_limit: int
    ttl: int | str
    restart_policy: Literal["OnFailure", "Never"] | None
    user: int
    group: int
    pull_secrets: Sequence[str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
