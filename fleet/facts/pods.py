"""What pods request of a node, and what the Pod Security Standards ask of them (kubernetes.io, Pod Security Standards)."""

from __future__ import annotations

from typing import Literal, Protocol

Level = Literal["privileged", "baseline", "restricted"]
"""Kubernetes' Pod Security Standards."""

CONFINED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the standard `restricted` asks of a pod and of a container."""

RUNNER_UID = 1001
"""User `runner` of the upstream runner image (actions/runner, images/Dockerfile)."""


class Requests(Protocol):
    """What one pod requests, side cars included: `cpu` in millicores, `memory` in MiB."""

    @property
    def name(self) -> str: ...
    @property
    def cpu(self) -> int: ...
    @property
    def memory(self) -> int: ...
