"""The three smoke tests of a GPU: nvidia-smi and PyTorch (seed 000), and CUDA's deviceQuery (seed 003)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import SmokeWorkload

PYTORCH_SCRIPT = (Path(__file__).parent / "run" / "pytorch_smoke.py").read_text(encoding="utf-8")
COMMANDS: Mapping[str, list[str]] = {
    # The container runtime mounts this program from the node.
    "nvidia-smi": ["nvidia-smi"],
    "pytorch": ["python3", "-c", PYTORCH_SCRIPT],
    # It prints the GPU's properties and `Result = PASS`.
    "device-query": ["/cuda-samples/sample"],
}
"""The command of each test by kind of workload. It fails without a driver or a GPU."""


def smoke_job(meta: parts.Meta, workload: SmokeWorkload, target: Target) -> tuple[Manifest, ...]:
    """The Job of one test.

    PyTorch's libraries look for a home and a user name, and the image has no user with our UID. So the Job sets both.
    """
    is_pytorch = workload.kind == "pytorch"
    env = {"HOME": parts.HOME, "USER": "smoke"} if is_pytorch else {}
    container = parts.gpu_container(workload, target, env, command=COMMANDS[workload.kind])
    mounts = parts.shared_memory(workload, target) if is_pytorch else ()
    return (parts.job(meta, parts.gpu_pod(target, container, mounts, RUNNER_PRIORITY)),)
