"""TensorFlow learns handwritten digits (seed 003). The example is from Azure's documentation and runs on any cluster."""

from __future__ import annotations

from fleet.facts.manifest import Manifest
from fleet.facts.pods import Mount
from fleet.facts.scheduling import MEDIUM_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import MnistWorkload


def tf_mnist(meta: parts.Meta, workload: MnistWorkload, target: Target) -> tuple[Manifest, ...]:
    """A Job of `max_steps` steps. It downloads the digits from the internet into a scratch folder of the pod."""
    args = ["--max_steps", str(workload.max_steps)]
    container = parts.gpu_container(workload, target, {"HOME": parts.HOME}, args=args)
    mounts = [Mount("scratch", parts.HOME, {"emptyDir": {"sizeLimit": "2Gi"}}), *parts.shared_memory(workload, target)]
    pod = parts.gpu_pod(target, container, mounts, MEDIUM_PRIORITY)
    return (parts.job(meta, pod, restart="OnFailure", retries=3),)
