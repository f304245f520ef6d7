"""TensorFlow learns handwritten digits (seed 003): the demonstration of Azure's documentation, on any cluster."""

from __future__ import annotations

from fleet.facts.scheduling import MEDIUM_PRIORITY
from fleet.providers.target import Target
from fleet.render.workloads import parts
from fleet.settings.workloads import WORKLOAD_IMAGES, MnistWorkload

IMAGE = WORKLOAD_IMAGES["tf-mnist"]


def tf_mnist(meta: parts.Meta, workload: MnistWorkload, target: Target) -> tuple[parts.Manifest, ...]:
    """A Job of `max_steps` steps. It loads the digits from the internet into its scratch folder, which goes with the pod."""
    container = parts.gpu_container(
        workload, target, "tf-mnist", IMAGE.reference, {"HOME": parts.HOME}, args=["--max_steps", str(workload.max_steps)]
    )
    mounts = [parts.scratch("scratch", parts.HOME, "2Gi"), *parts.shared_memory(workload, target)]
    pod = parts.gpu_pod(target, container, mounts, MEDIUM_PRIORITY)
    return (parts.job(meta, pod, restart="OnFailure", retries=3),)
