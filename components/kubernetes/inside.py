"""What every cluster has inside, whatever its cloud: what makes its GPUs schedulable, ARC, and its runner sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pulumi

from components.kubernetes.arc_controller import ArcController, ArcControllerArgs
from components.kubernetes.arc_runner_set import Arc, ArcRunnerSet, ArcRunnerSetArgs, MakeSecret
from components.kubernetes.argo_cd import ArgoCd, ArgoCdArgs
from components.kubernetes.deliver import Deliver, by_helm
from components.kubernetes.device_plugin_stack import DevicePluginStack, DevicePluginStackArgs
from components.kubernetes.github_secret import by_program, nobody_here
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
from fleet.facts.node_image import NODE_IMAGES, NodeImage
from fleet.facts.scheduling import SchedulingProfile
from fleet.jobs.stack import place_stack_job
from fleet.providers.fleet import Fleet
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.providers.registry import PROVIDERS
from fleet.providers.runner_charts import pod_set
from fleet.render.queues import Manifest, QueueObjects, queue_objects
from fleet.render.team_namespace import homes
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.settings.gitops import ByProgram, GitOps
from fleet.settings.operator import OperatorSettings
from fleet.settings.queues import Queues
from fleet.settings.runner import PodRunner
from fleet.settings.sharing import Mig
from fleet.settings.workloads import PoolWorkload, Workload


class RunnerSet(Protocol):
    """A component that is a runner set."""

    runs_on: pulumi.Output[list[str]]
    """Labels that reach the set, its name first."""


MachineSet = Callable[[str, MachineRunner, str, Arc], RunnerSet]
"""(set name, runner class, runner group, what the cluster's sets share) → the set, a component."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A cluster as its inside sees it.

    `name` is its name in the settings. `ready` are the resources that stand before any chart: control plane and system nodes.
    `opts` name the cluster's Kubernetes provider. `backings` are what its cloud has for each of its caches. `deliver` is who
    brings charts. Where another program makes the teams' namespaces and their caches, this one does not (`furnished`). `cloud`
    is what charts of the provider's own need of their cloud.
    """

    name: str
    settings: Cluster
    ready: Sequence[pulumi.Resource]
    opts: pulumi.ResourceOptions
    backings: Mapping[str, Backing] = field(default_factory=dict)
    deliver: Deliver = by_helm
    furnished: bool = False
    cloud: Sequence[pulumi.Resource] = ()

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
    secret = by_program(fleet.github, private_key)
    if inside.settings.gitops is None:
        sets = runner_sets(inside, fleet, furnish(inside, fleet, secret), machine_set)
    else:
        sets = _bootstrap(inside, fleet, inside.settings.gitops, secret, machine_set)
    return {name: each.runs_on for name, each in sets.items()}


def furnish(inside: Inside, fleet: Fleet, secret: MakeSecret) -> Arc:
    """What makes GPUs schedulable, ARC, and what teams have; returns what runner sets share. `secret` makes the App's."""
    _ENABLE[inside.settings.enablement](inside)
    controller = ArcController(f"{inside.name}-arc", ArcControllerArgs(inside.ready, inside.deliver), opts=inside.opts)
    _teams(inside, fleet, controller.priority)
    return Arc(
        fleet.github,
        secret,
        releases={charts.CONTROLLER: controller.release},
        ready=(*inside.ready, controller.priority),
        closed=inside.settings.closed_networks,
        deliver=inside.deliver,
    )


def _bootstrap(
    inside: Inside, fleet: Fleet, git: GitOps, secret: MakeSecret, machine_set: MachineSet | None
) -> dict[str, RunnerSet]:
    """What only the program knows, the App's key and what the cloud called things, and ArgoCD, which brings all else out of Git.

    Caches are of the former, and so are all namespaces: one that changed hands with the first cache in it would be deleted, with
    what people have there. ArgoCD comes last, so that what it made goes first: without its secret no runner set ever ends.
    """
    made: list[pulumi.Resource] = [*inside.cloud]
    if inside.settings.team_namespaces:
        spaces = _namespaces(inside, inside.ready)
        made += [spaces, *_caches(inside, spaces).values()]
    arc = Arc(
        fleet.github,
        secret if isinstance(inside.settings.secrets_by, ByProgram) else nobody_here,
        releases={},
        ready=inside.ready,
        closed=inside.settings.closed_networks,
        deliver=None,
    )
    sets = runner_sets(inside, fleet, arc, machine_set)
    made += [each for each in sets.values() if isinstance(each, pulumi.Resource)]
    ArgoCd(f"{inside.name}-argocd", ArgoCdArgs(git, inside.ready, made), opts=inside.opts)
    return sets


def runner_sets(inside: Inside, fleet: Fleet, arc: Arc, machine_set: MachineSet | None = None) -> dict[str, RunnerSet]:
    """The runner sets by name. Raises TypeError as `install` does."""
    sets: dict[str, RunnerSet] = {}
    for name, runner in inside.settings.runners.items():
        group = fleet.group_of(runner)
        if isinstance(runner, PodRunner):
            sets[name] = _pod_set(inside, name, runner, group, arc)
        elif isinstance(runner, MachineRunner) and machine_set is not None:
            sets[name] = machine_set(name, runner, group, arc)
        else:
            raise TypeError(
                f"{inside.name}/{name}: nothing here builds runners of kind {runner.kind}; give install a machine_set"
            )
    return sets


def _teams(inside: Inside, fleet: Fleet, priority: pulumi.Resource) -> None:
    """What teams have in the cluster: namespaces, each declared once whatever names it, queues, caches, workloads and jobs.

    Each is made after what its objects name, so that it is removed before. `priority` is the runners' class, which some
    workloads and the jobs outside of queues have, too.
    """
    settings = inside.settings
    classes: tuple[pulumi.Resource, ...] = ()
    if settings.queues is not None or settings.workloads or settings.jobs:
        classes = Priorities(f"{inside.name}-priorities", PrioritiesArgs(inside.ready), opts=inside.opts).classes
    objects, kueue = None, None
    if settings.queues is not None:
        objects = queue_objects(inside.name, settings, settings.queues)
        kueue = _kueue(inside, settings.queues, objects, (*inside.ready, *classes))
    if not settings.team_namespaces:
        return
    # Kueue's webhooks judge what is made in the teams' namespaces.
    ready = (*inside.ready, kueue.release) if kueue is not None else inside.ready
    walls: dict[str, Sequence[pulumi.Resource]] = {}
    caches: dict[str, ModelCache] = {}
    if not inside.furnished:
        spaces = _namespaces(inside, ready)
        walls = {name: spaces.walled(name) for name in settings.team_namespaces}
        caches = _caches(inside, spaces)
    stands = {name: (*walls.get(name, ()), *classes, priority) for name in settings.team_namespaces}
    # No Job is among those of a queue's namespace: they wait for no queue.
    _workloads(inside, caches, stands)
    if objects is not None and kueue is not None:
        queues = _queues(inside, objects, kueue, walls)
        # Kueue whole: a Job names one of its priorities, too.
        stands = {name: (*held, kueue, *queues.of(name)) for name, held in stands.items()}
    _jobs(inside, fleet, caches, stands)


def _namespaces(inside: Inside, ready: Sequence[pulumi.Resource]) -> Namespaces:
    """Every namespace of a team with its walls, each after what stands `ready`."""
    return Namespaces(f"{inside.name}-namespaces", NamespacesArgs(homes(inside.settings), ready), opts=inside.opts)


def _kueue(inside: Inside, queues: Queues, objects: QueueObjects, ready: Sequence[pulumi.Resource]) -> QueueController:
    chart = charts.kueue(queues.namespaces, fair_sharing=queues.fair_sharing)
    args = QueueControllerArgs(chart, objects, ready, inside.deliver)
    return QueueController(f"{inside.name}-queues", args, opts=inside.opts)


def _queues(
    inside: Inside, objects: QueueObjects, kueue: QueueController, walls: Mapping[str, Sequence[pulumi.Resource]]
) -> LocalQueues:
    """A queue for each team, and the LocalQueues of all their namespaces; `walls` stand around each."""
    manifests: dict[str, Sequence[Manifest]] = {}
    ready: dict[str, Sequence[pulumi.Resource]] = {}
    for team, queue in objects.teams.items():
        made = GpuQueue(f"{inside.name}-queues.{team}", GpuQueueArgs(queue, kueue.flavors), opts=inside.opts)
        manifests |= queue.local_queues
        ready |= {namespace: (made.cluster_queue, *walls.get(namespace, ())) for namespace in queue.local_queues}
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
        DevicePluginStackArgs(
            inside.profile.tolerations,
            inside.configs,
            inside.ready,
            inside.deliver,
            inside.image.handler if inside.image is not None else "",
        ),
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
                deliver=inside.deliver,
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


def _pod_set(inside: Inside, name: str, runner: PodRunner, group: str, arc: Arc) -> ArcRunnerSet:
    args = ArcRunnerSetArgs(
        pod_set(inside.settings, name, runner, arc.github.url, group), arc, opened=inside.settings.private_egress
    )
    return ArcRunnerSet(f"{inside.name}-{name}", args, opts=inside.opts)
