"""CUDA's deviceQuery: what the runtime API tells of a GPU (seed 003)."""

from __future__ import annotations

from fleet.facts.scheduling import RUNNER_PRIORITY, Priority
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, SmokeWorkload

IMAGE = WORKLOAD_IMAGES["device-query"]
_SAMPLE = "/cuda-samples/sample"


def device_query(
    meta: parts.Meta, workload: SmokeWorkload, target: Target, priority: Priority = RUNNER_PRIORITY
) -> tuple[parts.Manifest, ...]:
    """A Job that prints the GPU's properties and `Result = PASS`, and fails without a GPU."""
    container = parts.gpu_container(workload, target, "device-query", IMAGE.reference, {}, command=[_SAMPLE])
    return (parts.job(meta, parts.gpu_pod(target, container, (), priority)),)
