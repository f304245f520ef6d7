"""What every cluster has inside, whatever its cloud: what makes its GPUs schedulable, ARC, and its runner sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pulumi

from components.kubernetes.arc_controller import ArcController, ArcControllerArgs
from components.kubernetes.arc_runner_set import Arc, ArcRunnerSet, ArcRunnerSetArgs
from components.kubernetes.device_plugin_stack import DevicePluginStack, DevicePluginStackArgs
from components.kubernetes.gpu_operator import GpuOperator, GpuOperatorArgs
from fleet import charts
from fleet.cluster import Cluster
from fleet.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.node_image import NODE_IMAGES, NodeImage
from fleet.operator import OperatorSettings
from fleet.providers import PROVIDERS
from fleet.runner import PodRunner
from fleet.scheduling import SchedulingProfile
from fleet.settings import Fleet
from fleet.vm_runner import MachineRunner

MachineSet = Callable[[str, MachineRunner, str, Arc], pulumi.Output[list[str]]]
"""(set name, runner class, runner group, what the cluster's sets share) → the set's `runs_on`."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A cluster as its inside sees it.

    `name` is its name in the settings. `ready` are the resources that stand before any chart: control plane and system nodes.
    `opts` name the cluster's Kubernetes provider.
    """

    name: str
    settings: Cluster
    ready: Sequence[pulumi.Resource]
    opts: pulumi.ResourceOptions

    @property
    def profile(self) -> SchedulingProfile:
        """What the provider does to its GPU nodes."""
        return PROVIDERS[self.settings.provider].profile

    @property
    def operator(self) -> OperatorSettings:
        """How the GPU operator is set, should the cluster have it."""
        return self.settings.operator or OperatorSettings()

    @property
    def cdi(self) -> bool:
        """Whether the containers of some pool get their GPUs by CDI. Under the operator all pools agree on it."""
        return any(pool.cdi for pool in self.settings.pools.values())

    @property
    def image(self) -> NodeImage | None:
        """The kind of node image that all pools have, as the operator sees it; None without a pool."""
        return next((NODE_IMAGES[pool.image] for pool in self.settings.pools.values()), None)


def install(
    inside: Inside, fleet: Fleet, private_key: pulumi.Input[str], machine_set: MachineSet | None = None
) -> dict[str, pulumi.Output[list[str]]]:
    """Declare a cluster's inside; returns the labels that reach each runner set, by its name.

    `private_key` is the GitHub App's, a secret. `machine_set` declares a set whose runners are machines. Raises TypeError for a
    runner class that neither is a pod nor has a builder.
    """
    _ENABLE[inside.settings.enablement](inside)
    controller = ArcController(f"{inside.name}-arc", ArcControllerArgs(inside.ready), opts=inside.opts)
    arc = Arc(
        fleet.github,
        private_key,
        releases={charts.CONTROLLER: controller.release},
        ready=(*inside.ready, controller.priority),
        closed=inside.settings.closed_networks,
    )
    runs_on: dict[str, pulumi.Output[list[str]]] = {}
    for name, runner in inside.settings.runners.items():
        group = fleet.group_of(runner)
        if isinstance(runner, PodRunner):
            runs_on[name] = _pod_set(inside, name, runner, group, arc)
        elif isinstance(runner, MachineRunner) and machine_set is not None:
            runs_on[name] = machine_set(name, runner, group, arc)
        else:
            raise TypeError(
                f"{inside.name}/{name}: nothing here builds runners of kind {runner.kind}; give install a machine_set"
            )
    return runs_on


def _device_plugin(inside: Inside) -> None:
    DevicePluginStack(
        f"{inside.name}-device-plugin",
        DevicePluginStackArgs(inside.profile.tolerations, inside.cdi, inside.ready),
        opts=inside.opts,
    )


def _gpu_operator(inside: Inside) -> None:
    if inside.image is not None:
        GpuOperator(
            f"{inside.name}-gpu-operator",
            GpuOperatorArgs(
                image=inside.image,
                operator=inside.operator,
                cdi=inside.cdi,
                tolerations=inside.profile.tolerations,
                ready=inside.ready,
            ),
            opts=inside.opts,
        )


def _by_the_provider(_: Inside) -> None:
    """The provider's own add-on: its cluster component switches it on."""


_ENABLE: dict[str, Callable[[Inside], None]] = {
    DEVICE_PLUGIN: _device_plugin,
    GPU_OPERATOR: _gpu_operator,
    GPU_PLUGIN_ADDON: _by_the_provider,
}


def _pod_set(inside: Inside, name: str, runner: PodRunner, group: str, arc: Arc) -> pulumi.Output[list[str]]:
    pool = inside.settings.pools[runner.pool]
    chart = charts.runner_set(
        name,
        runner,
        arc.github.url,
        group,
        tolerations=inside.profile.pod_tolerations(pool.capacity),
        runtime_class=_runtime_class(inside),
    )
    args = ArcRunnerSetArgs(chart, arc, opened=inside.settings.private_egress)
    return ArcRunnerSet(f"{inside.name}-{name}", args, opts=inside.opts).runs_on


def _runtime_class(inside: Inside) -> str:
    if inside.settings.enablement != GPU_OPERATOR or inside.image is None:
        return ""
    return charts.runtime_class(inside.image, inside.operator, cdi=inside.cdi)
