"""Whether the nodes of a pool can run an image: processor, compute capability of the GPU, and NVIDIA's driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from fleet.facts import hardware
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.versions import RUNNER_GPU, RUNNER_GPU_REPOSITORY, Image, RunnerGpu, minor
from fleet.settings.cluster import Cluster
from fleet.settings.compatibility import branch
from fleet.settings.operator import OperatorSettings
from fleet.settings.workloads import OTHER_IMAGES, WORKLOAD_IMAGES, PoolWorkload

_Workload = TypeVar("_Workload", bound=PoolWorkload)
_OF_OURS = re.compile(rf"(?:.*/)?{RUNNER_GPU_REPOSITORY}:(?P<tag>[^@]+)(?:@.*)?")


def node_driver(cluster: Cluster, pool: str) -> str | None:
    """Version of NVIDIA's driver on the nodes of a pool: the node image's, or the GPU operator's. None if no source names it."""
    if NODE_IMAGES[cluster.pools[pool].image].driver:
        return cluster.image_driver(pool)
    return (cluster.operator or OperatorSettings()).driver.version


def runner_gpu(reference: str | None) -> RunnerGpu | None:
    """The row of images/runner-gpu that an image was built from, by its tag; None for any other image.

    The workflow runner-image writes "build-" before the row.
    """
    match = _OF_OURS.fullmatch(reference or "")
    rows = (row for row in RUNNER_GPU.values() if match and match["tag"].removeprefix("build-").startswith(f"{row.name}-"))
    return next(rows, None)


def pinned_image(cluster: Cluster, workload: PoolWorkload) -> Image:
    """The pinned image of a workload: the first of its kind that the nodes of its pool can run, or the default if they run none.

    If no source names the driver of the nodes, it is the one that the oldest driver runs.
    """
    default = WORKLOAD_IMAGES[workload.kind]
    machines, driver = cluster.pools[workload.pool].machines, node_driver(cluster, workload.pool)
    images = [image for image in (default, *OTHER_IMAGES.get(workload.kind, ())) if not unrunnable(image, machines, driver)]
    if driver is None:
        return min(images, key=lambda image: image.least_driver or 0, default=default)
    return next(iter(images), default)


def with_pinned_image(cluster: Cluster, workload: _Workload) -> _Workload:
    """The workload with the pinned image for its pool in place of an empty `image`."""
    return workload if workload.image else workload.model_copy(update={"image": pinned_image(cluster, workload).reference})


def unrunnable(image: Image | None, machines: Iterable[hardware.Machine], driver: str | None = None) -> str:
    """Why an image does not run on one of the machines with this driver, or an empty string.

    None is an image about which nothing is known, or an unknown driver.
    """
    for machine in machines:
        if machine.gpu is None or machine.gpu.vendor != "nvidia":
            return f"needs an NVIDIA GPU, {machine.name} has none"
        if image is None:
            continue
        least, most, has = image.least_capability, image.most_capability, machine.gpu.compute_capability
        gpu = f"the {machine.gpu.name} of {machine.name} has {has}"
        if image.architectures and machine.arch not in image.architectures:
            built = " and ".join(image.architectures)
            return f"its image is built for {built}, {machine.name} is {machine.arch}; set image to a build for it"
        if least and minor(has) < minor(least):
            fix = "set another image, or use another pool"
            return f"its image has code for compute capability {least} and newer, {gpu}; {fix}"
        # Code for a capability also runs on later minors of the same major (NVIDIA, Blackwell compatibility guide, 1.2).
        if most and minor(has)[0] > minor(most)[0]:
            fix = "set an image with a newer CUDA, or use another pool"
            return f"its image has or builds code for compute capability {most} and older, {gpu}; {fix}"
    if image is not None and image.least_driver is not None and driver is not None and branch(driver) < image.least_driver:
        fix = "set an image with an older CUDA, or use nodes with a newer driver"
        return f"its image needs driver branch R{image.least_driver} or newer, the nodes have {driver}; {fix}"
    return ""
