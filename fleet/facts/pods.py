"""The requests of pods, and what the Pod Security Standards require of them (kubernetes.io, Pod Security Standards)."""

from __future__ import annotations

from typing import Literal, Protocol

Level = Literal["privileged", "baseline", "restricted"]
"""Kubernetes' Pod Security Standards."""

CONFINED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The security contexts that the standard `restricted` requires for a pod and for a container."""

RUNNER_UID = 1001
"""The user id of `runner` in the upstream runner image (actions/runner, images/Dockerfile)."""


class Requests(Protocol):
    """What one pod requests, side cars included: `cpu` in millicores, `memory` in MiB."""

    @property
    def name(self) -> str: ...
    @property
    def cpu(self) -> int: ...
    @property
    def memory(self) -> int: ...
