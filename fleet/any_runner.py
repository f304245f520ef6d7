"""A runner class of any kind, selected by `kind`: for OKE, which has them all."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from fleet.runner import KINDS, OkePodRunner
from fleet.vm_runner import VmPerJobRunner, VmRunner


def _kind(value: Any) -> str | None:
    """The kind that a runner's settings name; pod where they name none, unless they name shapes."""
    # A pod's model tells what is no mapping.
    unnamed = None if isinstance(value, dict) and "shapes" in value else "pod"
    named = value.get("kind", unnamed) if isinstance(value, dict) else getattr(value, "kind", unnamed)
    return named if named in KINDS else None


AnyRunner = Annotated[
    Annotated[OkePodRunner, Tag("pod")] | Annotated[VmRunner, Tag("vm")] | Annotated[VmPerJobRunner, Tag("vm-per-job")],
    Discriminator(
        _kind,
        custom_error_type="gpu_ci_runner_kind",
        custom_error_message="{message}",
        custom_error_context={
            "message": f"a runner is of kind {', '.join(KINDS[:-1])} or {KINDS[-1]}; name one (a pod may leave kind out)"
        },
    ),
]
