"""Whether the nodes of a pool can run an image: processor, compute capability of the GPU, and NVIDIA's driver.

Also runner classes whose image has a CUDA that the newest PyTorch is not published for: `data/pytorch.csv` has the releases. If
jobs run in their own images, `cuda` of the class says what these need, and the image of the runner says nothing of them.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import TypeVar

from fleet.facts import hardware
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.record import Record
from fleet.facts.remark import said
from fleet.facts.tables import entry, rows
from fleet.facts.versions import RUNNER_GPU, Image, image_cuda, minor
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.compatibility import branch, cuda_unknown
from fleet.settings.operator import OperatorSettings
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import OTHER_IMAGES, WORKLOAD_IMAGES, PoolWorkload

_Workload = TypeVar("_Workload", bound=PoolWorkload)


def node_driver(cluster: Cluster, pool: str) -> str | None:
    """Version of NVIDIA's driver on the nodes of a pool: the node image's, or the GPU operator's. None if no source names it."""
    if NODE_IMAGES[cluster.pools[pool].image].driver:
        return cluster.image_driver(pool)
    return (cluster.operator or OperatorSettings()).driver.version


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
        if wrong := unbuilt(image, (machine,)):
            return wrong
        if least and minor(has) < minor(least):
            return said("image_too_new", image=image, machine=machine)
        # Code for a capability also runs on later minors of the same major (NVIDIA, Blackwell compatibility guide, 1.2).
        if most and minor(has)[0] > minor(most)[0]:
            return said("image_too_old", image=image, machine=machine)
    if image is not None and image.least_driver is not None and driver is not None and branch(driver) < image.least_driver:
        return said("image_driver", image=image, driver=driver)
    return ""


def unbuilt(image: Image | None, machines: Iterable[hardware.Machine]) -> str:
    """Why one of the machines has another processor than the image is built for, or an empty string."""
    for machine in machines:
        if image is not None and image.architectures and machine.arch not in image.architectures:
            built = " and ".join(image.architectures)
            return f"its image is built for {built}, {machine.name} is {machine.arch}; set image to a build for it"
    return ""


# -- PyTorch -----------------------------------------------------------------------------------------------------------


class Build(Record):
    """A minor release, such as 2.14, for one CUDA, such as 13.2. PyPI has only the `default` build of a release.

    `released` is the day of its first file on PyPI. `image` is what a GPU and a driver need to run the build: `least_driver` is
    the oldest branch of NVIDIA's driver for that major version of CUDA, and the build has code for the compute capabilities from
    `least_capability` to `most_capability`. An empty text means not known; with a `least_capability` it means that drivers
    compile the code for newer GPUs.
    """

    release: str
    released: date
    cuda: str
    default: bool
    image: Image


# All releases have builds for x86_64.
BUILDS = tuple(
    entry(Build, row, image=entry(Image, row, reference=row["release"], architectures=("x86_64",))) for row in rows("pytorch.csv")
)
"""Every build for CUDA 12 and newer, the oldest release first."""


def current(day: date) -> tuple[Build, ...]:
    """The builds of the newest release on a day. A release counts from its day on. Empty before the first of the table."""
    published = [build for build in BUILDS if build.released <= day]
    return tuple(build for build in published if build.release == published[-1].release)


def last_release(cuda: str, day: date) -> str:
    """The newest release on a day that has a build for a CUDA version ("12.8"). Empty if the table has none."""
    return next((build.release for build in reversed(BUILDS) if build.cuda == cuda and build.released <= day), "")


def remarks(fleet: Fleet, day: date) -> Iterator[str]:
    """A line for each runner class whose image has a CUDA that the newest PyTorch of the day is not published for.

    Also one for each pool of a class with `cuda` of which no source names the driver.
    """
    builds = current(day)
    published = [build.cuda for build in builds]
    for name, cluster in fleet.clusters_by_name():
        for runner_set, runner in cluster.pod_runners.items():
            for pool in (pool for pool in runner.ordered if runner.cuda is not None and node_driver(cluster, pool) is None):
                yield f"{name}/{runner_set}: {cuda_unknown(runner.cuda or '', f'pool {pool}')}"
            cuda = image_cuda(cluster.with_image(runner).image) if runner.gpus and not runner.in_containers else ""
            if cuda and builds and cuda not in published:
                last = last_release(cuda, day)
                until = f"PyTorch {last} was the last release for it" if last else "no release of PyTorch is for it"
                having = f"PyTorch {builds[0].release} is for CUDA {' and '.join(published)}"
                text = f"its image has CUDA {cuda}: {until}, and {having}; {_advice(cluster, runner, builds)}"
                yield f"{name}/{runner_set}: {text}"


def _advice(cluster: Cluster, runner: PodRunner, builds: tuple[Build, ...]) -> str:
    """Which CUDA to build the image for, so that it runs on every pool of the class."""
    for build in sorted(builds, key=lambda release: not release.default):
        pools = ((cluster.pools[pool].machines, node_driver(cluster, pool)) for pool in runner.ordered)
        if not any(unrunnable(build.image, *pool) for pool in pools):
            row = next((row for row in RUNNER_GPU.values() if row.cuda.startswith(f"{build.cuda}.")), None)
            how = f"make image CUDA={build.cuda} UBUNTU={row.ubuntu}" if row else f"an image with CUDA {build.cuda}"
            return f"to build that release, use {how} (docs/runner-image.md#pytorch)"
    return "none of its builds runs on the pools of this class, so keep the image and that release (docs/runner-image.md#pytorch)"
