"""A whole scale set of a runner or of machines, and all manifests of a cluster's workloads, for tests that read them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fleet.charts.chart import Chart
from fleet.charts.enablement import Access
from fleet.charts.gpu_operator import GpuOperatorSettings
from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import Manifest
from fleet.facts.node_image import NodeImage
from fleet.facts.scheduling import (
    GPU_RESOURCE,
    GPU_TOLERATION,
    RUNNER_PRIORITY,
    SYSTEM_SELECTOR,
    Toleration,
    per_node_annotation,
    pool_selector,
)
from fleet.providers.oke.launcher_set import PerJobSet, StandingSet, machine_chart
from fleet.providers.oke.vm_runner import MachineRunner, VmRunner
from fleet.render.isolation import homes
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.cluster import Cluster
from fleet.settings.operator import OperatorSettings
from fleet.settings.runner import PodRunner, RunnerPod
from fleet.settings.sharing import GpuAccess

FINDS: Mapping[str, Any] = {"listener_node_selector": SYSTEM_SELECTOR, "priority_class": RUNNER_PRIORITY.name}
"""What a set finds in a cluster of the program."""


def runner_set(
    name: str,
    runner: RunnerPod,
    github_url: str,
    group: str,
    tolerations: Sequence[Toleration] = (GPU_TOLERATION,),
    runtime_class: str = "",
    resource: str = GPU_RESOURCE,
    *,
    mounts_shm: bool = True,
    selectors: Sequence[Mapping[str, str]] | None = None,
    place: Mapping[str, Any] = FINDS,
    usd_per_hour: str = "",
    per_node: int = 1,
) -> Chart:
    """One runner scale set: ephemeral runners as pods on the nodes of one of `selectors`, as `PodSet.job` has them.

    The default is the labels of the runner's pools. `place` is what the set finds in its cluster.
    `per_node` is how many runners that wait a node holds.
    """
    if selectors is None:
        selectors = list(map(pool_selector, runner.ordered)) if isinstance(runner, PodRunner) else ()
    of_set = {"runner_scale_set_name": name, "github_url": github_url, "group": group, **place}
    of_nodes: dict[str, Any] = {"node_selectors": tuple(selectors), "tolerations": tolerations, "runtime_class": runtime_class}
    of_nodes |= {"gpu_resource": resource, "mounts_shm": mounts_shm, "usd_per_hour": usd_per_hour}
    made = PodSet.model_construct(**runner.set_fields(RunnerPod) | of_set | of_nodes)
    return made.scale_set(made.job, annotations=per_node_annotation(per_node), more=runner.scale_set_values)


def launcher_set(name: str, runner: MachineRunner, github_url: str, group: str, *, region: str, compartment: str) -> Chart:
    """One scale set of OCI machines, in the region of a cluster of the program."""
    kind: type[StandingSet | PerJobSet] = StandingSet if isinstance(runner, VmRunner) else PerJobSet
    of_set = {"runner_scale_set_name": name, "github_url": github_url, "group": group, **FINDS}
    of_set |= {"region": region, "compartment_id": compartment, "launcher_node_selector": SYSTEM_SELECTOR}
    return machine_chart(kind.model_construct(**runner.set_fields(type(runner)) | of_set))


def gpu_operator(
    image: NodeImage,
    operator: OperatorSettings,
    *,
    tolerations: Sequence[Toleration],
    access: Iterable[GpuAccess] = (),
    selector: Mapping[str, str] = SYSTEM_SELECTOR,
    **more: Any,
) -> Chart:
    """The operator for nodes of one kind of image, with more of its settings. `access` has the pools that share GPUs."""
    return GpuOperatorSettings.model_construct(
        **operator.set_fields(OperatorSettings),
        install_driver=not image.driver,
        install_toolkit=not image.toolkit,
        device_plugin=not image.advertises,
        driver_root=image.driver_root,
        tolerations=tuple(tolerations),
        access=tuple(Access.model_construct(sharing=pool.sharing, cdi=pool.cdi) for pool in access),
        controller_node_selector=dict(selector),
        **more,
    ).chart


def objects(cluster: Cluster) -> Iterator[Manifest]:
    """Every manifest of a cluster's workloads. Their namespaces with the network policies come first."""
    used = {workload.namespace for workload in cluster.workloads.values()}
    for name, home in homes(cluster).items():
        if name in used:
            yield from filter(None, (home.namespace, home.wall, home.limits))
    for name in cluster.workloads:
        yield from workload_objects(cluster, name)
