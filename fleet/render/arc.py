"""Commands for Actions Runner Controller (ARC) that people run by hand."""

from __future__ import annotations

import json

OUTDATED = "Outdated"
"""Phase of a set whose runner ended with exit code 7, which the runner does if GitHub refuses its version."""


def freeing_command(namespace: str, name: str) -> str:
    """The command that makes ARC start an `Outdated` set again, once GitHub accepts its runners.

    ARC 0.14.2 leaves the phase only if the set's spec or labels change, or if somebody writes another phase. It then registers
    the set again, because it has removed the registration's id (autoscalingrunnerset_controller.go, deleteRunnerScaleSet).
    `status` is a subresource of the CRD, so the command needs `--subresource`.
    """
    patch = json.dumps({"status": {"phase": "Pending"}}, separators=(",", ":"))
    return f"kubectl -n {namespace} patch autoscalingrunnerset {name} --subresource=status --type=merge -p '{patch}'"
