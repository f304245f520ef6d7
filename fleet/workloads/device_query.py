"""CUDA's deviceQuery: what the runtime API tells of a GPU (seed 003)."""

from __future__ import annotations

from fleet.scheduling import RUNNER_PRIORITY, Priority
from fleet.versions import IMAGES
from fleet.workloads import parts
from fleet.workloads.settings import SmokeWorkload
from fleet.workloads.target import Target

IMAGE = IMAGES["cuda-device-query"]
_SAMPLE = "/cuda-samples/sample"


def device_query(
    meta: parts.Meta, workload: SmokeWorkload, target: Target, priority: Priority = RUNNER_PRIORITY
) -> tuple[parts.Manifest, ...]:
    """A Job that prints the GPU's properties and `Result = PASS`, and fails without a GPU."""
    container = parts.gpu_container(workload, target, "device-query", IMAGE.reference, {}, command=[_SAMPLE])
    return (parts.job(meta, parts.gpu_pod(target, container, (), priority)),)
