"""nvidia-smi in a container: the driver answers and a GPU is there (seed 000)."""

from __future__ import annotations

from fleet.facts.scheduling import RUNNER_PRIORITY, Priority
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, SmokeWorkload

IMAGE = WORKLOAD_IMAGES["nvidia-smi"]


def nvidia_smi(
    meta: parts.Meta, workload: SmokeWorkload, target: Target, priority: Priority = RUNNER_PRIORITY
) -> tuple[parts.Manifest, ...]:
    """A Job that fails without a driver or a GPU. The program is the node's own: the container runtime brings it."""
    container = parts.gpu_container(workload, target, "nvidia-smi", IMAGE.reference, {}, command=["nvidia-smi"])
    return (parts.job(meta, parts.gpu_pod(target, container, (), priority)),)
