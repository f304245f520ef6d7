"""nvidia-smi in a container: the driver answers and a GPU is there (seed 000)."""

from __future__ import annotations

from fleet.scheduling import RUNNER_PRIORITY, Priority
from fleet.versions import IMAGES
from fleet.workloads import parts
from fleet.workloads.settings import SmokeWorkload
from fleet.workloads.target import Target

IMAGE = IMAGES["cuda"]


def nvidia_smi(
    meta: parts.Meta, workload: SmokeWorkload, target: Target, priority: Priority = RUNNER_PRIORITY
) -> tuple[parts.Manifest, ...]:
    """A Job that fails without a driver or a GPU. The program is the node's own: the container runtime brings it."""
    container = parts.gpu_container(workload, target, "nvidia-smi", IMAGE.reference, {}, command=["nvidia-smi"])
    return (parts.job(meta, parts.gpu_pod(target, container, (), priority)),)
