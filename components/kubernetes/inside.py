"""What every cluster has inside, whatever its cloud: what makes its GPUs schedulable, ARC, and its runner sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.kubernetes.arc_controller import ArcController, ArcControllerArgs
from components.kubernetes.arc_runner_set import Arc, ArcRunnerSet, ArcRunnerSetArgs
from components.kubernetes.device_plugin_stack import DevicePluginStack, DevicePluginStackArgs
from components.kubernetes.gpu_job import GpuJob, GpuJobArgs
from components.kubernetes.gpu_operator import GpuOperator, GpuOperatorArgs
from components.kubernetes.gpu_queue import GpuQueue, GpuQueueArgs
from components.kubernetes.gpu_workload import GpuWorkload, GpuWorkloadArgs
from components.kubernetes.local_queues import LocalQueues, LocalQueuesArgs
from components.kubernetes.model_cache import Backing, ModelCache, ModelCacheArgs
from components.kubernetes.namespaces import Namespaces, NamespacesArgs
from components.kubernetes.priorities import Priorities, PrioritiesArgs
from components.kubernetes.queue_controller import QueueController, QueueControllerArgs
from fleet import charts
from fleet.caches import class_name
from fleet.cluster import Cluster
from fleet.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.node_image import NODE_IMAGES, NodeImage
from fleet.operator import OperatorSettings
from fleet.providers import PROVIDERS
from fleet.queue_settings import Queues
from fleet.queues import Manifest, queue_objects
from fleet.runner import PodRunner
from fleet.scheduling import SchedulingProfile
from fleet.settings import Fleet
from fleet.sharing import Mig
from fleet.stack_jobs import place_stack_job
from fleet.team_namespace import homes
from fleet.vm_runner import MachineRunner
from fleet.workloads.catalogue import workload_objects
from fleet.workloads.settings import PoolWorkload, Workload
from fleet.workloads.target import runtime_class

MachineSet = Callable[[str, MachineRunner, str, Arc], pulumi.Output[list[str]]]
"""(set name, runner class, runner group, what the cluster's sets share) → the set's `runs_on`."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A cluster as its inside sees it.

    `name` is its name in the settings. `ready` are the resources that stand before any chart: control plane and system nodes.
    `opts` name the cluster's Kubernetes provider. `backings` are what its cloud has for each of its caches.
    """

    name: str
    settings: Cluster
    ready: Sequence[pulumi.Resource]
    opts: pulumi.ResourceOptions
    backings: Mapping[str, Backing] = field(default_factory=dict)

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
    def mig(self) -> str:
        """How the parts of MIG GPUs are named: none where no pool has them."""
        return next((pool.sharing.naming for pool in self.settings.pools.values() if isinstance(pool.sharing, Mig)), "none")

    @property
    def configs(self) -> charts.PluginConfigs | None:
        """What the device plugin is told of single pools."""
        return charts.plugin_configs(self.settings.pools.values(), by_operator=self.settings.enablement == GPU_OPERATOR)

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
    _teams(inside, fleet, controller.priority)
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


def _teams(inside: Inside, fleet: Fleet, priority: pulumi.Resource) -> None:
    """What teams have in the cluster: namespaces, each declared once whatever names it, queues, caches, workloads and jobs.

    Each is made after what its objects name, so that it is removed before. `priority` is the runners' class, which some
    workloads and the jobs outside of queues have, too.
    """
    settings = inside.settings
    classes: tuple[pulumi.Resource, ...] = ()
    if settings.queues is not None or settings.workloads or settings.jobs:
        classes = Priorities(f"{inside.name}-priorities", PrioritiesArgs(inside.ready), opts=inside.opts).classes
    kueue = _kueue(inside, settings.queues, (*inside.ready, *classes)) if settings.queues is not None else None
    if not settings.team_namespaces:
        return
    # Kueue's webhooks judge what is made in the teams' namespaces.
    ready = (*inside.ready, kueue.release) if kueue is not None else inside.ready
    spaces = Namespaces(f"{inside.name}-namespaces", NamespacesArgs(homes(settings), ready), opts=inside.opts)
    stands = {name: (*spaces.walled(name), *classes, priority) for name in settings.team_namespaces}
    caches = _caches(inside, spaces)
    # No Job is among those of a queue's namespace: they wait for no queue.
    _workloads(inside, caches, stands)
    if settings.queues is not None and kueue is not None:
        queues = _queues(inside, settings.queues, kueue, spaces)
        # Kueue whole: a Job names one of its priorities, too.
        stands = {name: (*held, kueue, *queues.of(name)) for name, held in stands.items()}
    _jobs(inside, fleet, caches, stands)


def _kueue(inside: Inside, queues: Queues, ready: Sequence[pulumi.Resource]) -> QueueController:
    objects = queue_objects(inside.name, inside.settings, queues)
    chart = charts.kueue(queues.namespaces, fair_sharing=queues.fair_sharing)
    return QueueController(f"{inside.name}-queues", QueueControllerArgs(chart, objects, ready), opts=inside.opts)


def _queues(inside: Inside, queues: Queues, kueue: QueueController, spaces: Namespaces) -> LocalQueues:
    """A queue for each team, and the LocalQueues of all their namespaces."""
    manifests: dict[str, Sequence[Manifest]] = {}
    ready: dict[str, Sequence[pulumi.Resource]] = {}
    for team, queue in queue_objects(inside.name, inside.settings, queues).teams.items():
        made = GpuQueue(f"{inside.name}-queues.{team}", GpuQueueArgs(queue, kueue.flavors), opts=inside.opts)
        manifests |= queue.local_queues
        ready |= {namespace: (made.cluster_queue, *spaces.walled(namespace)) for namespace in queue.local_queues}
    return LocalQueues(f"{inside.name}-queues", LocalQueuesArgs(manifests, ready), opts=inside.opts)


def _workloads(inside: Inside, caches: Mapping[str, ModelCache], ready: Mapping[str, Sequence[pulumi.Resource]]) -> None:
    """The workloads, each after what its namespace has `ready` and the class of its volume where that is a cache's."""
    classes = {class_name(name): cache.storage_class for name, cache in caches.items()}
    for name, workload in inside.settings.workloads.items():
        storage = classes.get(_storage_class(workload))
        stands = (*ready[workload.namespace], *((storage,) if storage is not None else ()))
        made = workload_objects(inside.settings, name)
        GpuWorkload(f"{inside.name}-{name}", GpuWorkloadArgs(made, stands), opts=inside.opts)


def _storage_class(workload: Workload) -> str:
    """The class that a workload's volume names, if it has one and names one."""
    asked = workload.storage_asked if isinstance(workload, PoolWorkload) else None
    return (asked.storage_class or "") if asked is not None else ""


def _caches(inside: Inside, spaces: Namespaces) -> dict[str, ModelCache]:
    """The caches by name."""
    return {
        name: ModelCache(
            f"{inside.name}-{name}",
            ModelCacheArgs(
                cache=name,
                settings=cache,
                backing=inside.backings[name],
                region=inside.settings.region,
                homes={namespace: spaces.get(namespace) for namespace in cache.namespaces},
                protect=inside.settings.protect,
            ),
            opts=inside.opts,
        )
        for name, cache in inside.settings.caches_by_name()
    }


def _jobs(inside: Inside, fleet: Fleet, caches: Mapping[str, ModelCache], ready: Mapping[str, Sequence[pulumi.Resource]]) -> None:
    """The jobs, each after what its namespace has `ready` and the claims that it mounts."""
    for name, job in inside.settings.jobs.items():
        manifest = place_stack_job(fleet, inside.name, name).manifest()
        held = (caches[claim].claims.get(job.namespace) for claim in job.claims if claim in caches)
        claims = [claim for claim in held if claim is not None]
        GpuJob(f"{inside.name}-{name}", GpuJobArgs(manifest, (*ready[job.namespace], *claims)), opts=inside.opts)


def _device_plugin(inside: Inside) -> None:
    DevicePluginStack(
        f"{inside.name}-device-plugin",
        DevicePluginStackArgs(inside.profile.tolerations, inside.configs, inside.ready),
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
                mig=inside.mig,
                configs=inside.configs,
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
        runtime_class=runtime_class(inside.settings),
        resource=pool.resource,
        mounts_shm=pool.mounts_shm,
    )
    args = ArcRunnerSetArgs(chart, arc, opened=inside.settings.private_egress)
    return ArcRunnerSet(f"{inside.name}-{name}", args, opts=inside.opts).runs_on
