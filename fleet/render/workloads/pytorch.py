"""PyTorch on a GPU: it is seen, named, and multiplies matrices (seed 000)."""

from __future__ import annotations

from pathlib import Path

from fleet.facts.scheduling import RUNNER_PRIORITY, Priority
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, SmokeWorkload

IMAGE = WORKLOAD_IMAGES["pytorch"]
SCRIPT = (Path(__file__).parent / "run" / "pytorch_smoke.py").read_text(encoding="utf-8")


def pytorch(
    meta: parts.Meta, workload: SmokeWorkload, target: Target, priority: Priority = RUNNER_PRIORITY
) -> tuple[parts.Manifest, ...]:
    """A Job that fails where PyTorch sees no GPU, or gets a wrong product from it."""
    # The image has no such user: libraries that ask for a home or a name find one.
    env = {"HOME": parts.HOME, "USER": "smoke"}
    container = parts.gpu_container(workload, target, "pytorch", IMAGE.reference, env, command=["python3", "-c", SCRIPT])
    return (parts.job(meta, parts.gpu_pod(target, container, parts.shared_memory(workload, target), priority)),)
