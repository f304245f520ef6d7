"""The optional arguments of a job with their types, for editors and type checkers. docs/jobs.md explains each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class AskOptions(TypedDict, total=False):
    """Options about what a job needs from a node. Amounts are strings as in Kubernetes: "16Gi", "500m"."""

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
    """Every option of a job. Times are seconds, or strings with a unit: "2h"."""

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
