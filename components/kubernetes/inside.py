"""The contents of a cluster on any provider: the chart that makes GPUs schedulable, ARC, runner sets, and what teams use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulumi

from components.context import PrivateKeys
from components.kubernetes.arc_runner_set import ArcRunnerSet, Read
from components.kubernetes.deliver import Deliver, delivery
from components.kubernetes.enablement import DevicePluginStack, GpuOperator
from components.kubernetes.gpu_workload import GpuJob, GpuJobArgs, GpuWorkload, GpuWorkloadArgs
from components.kubernetes.model_cache import Backing, ModelCache, ModelCacheArgs
from components.kubernetes.namespaces import Namespaces, NamespacesArgs
from components.kubernetes.plain_chart import (
    ArcController,
    ArcControllerArgs,
    ArgoCd,
    ArgoCdArgs,
    GpuMonitoring,
    GpuMonitoringArgs,
    PlainChart,
    PlainChartArgs,
)
from components.kubernetes.priorities import Priorities, PrioritiesArgs, PriorityExpander, PriorityExpanderArgs
from components.kubernetes.queues import (
    GpuQueue,
    GpuQueueArgs,
    LocalQueues,
    LocalQueuesArgs,
    QueueController,
    QueueControllerArgs,
)
from components.kubernetes.scale_set import Arc
from components.kubernetes.sweeps import Sweeps, SweepsArgs
from components.outputs import RunnerSetOutputs
from fleet.charts.arc import NAMESPACE as ARC_NAMESPACE
from fleet.charts.argo_cd import argo_cd
from fleet.charts.enablement import DevicePlugin, GpuOperatorSettings
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE
from fleet.facts.manifest import Manifest
from fleet.jobs.stack import place_stack_job
from fleet.prove.bill import waiting_per_node
from fleet.providers.fleet import Fleet
from fleet.providers.installed import controller_chart, enablement_of, kueue_chart, monitoring_charts, plain_charts, pod_set_of
from fleet.providers.registry import PROVIDERS
from fleet.render.isolation import homes
from fleet.render.monitoring.objects import monitoring_objects, storage_class
from fleet.render.placeholders import placeholders
from fleet.render.queues import queue_objects
from fleet.render.sweeps.sweep import sweeps
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from fleet.settings.gitops import ByProgram, GitOps
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE, jobs_namespace, runner_namespace
from fleet.settings.runner import PodRunner
from fleet.settings.workloads import PoolWorkload, Workload


class RunnerSet(Protocol):
    """A component that declares a runner set."""

    namespace_name: pulumi.Output[str]
    """Name of the namespace of its runners."""
    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""


MachineSet = Callable[[str, Any, Arc], RunnerSet]
"""(set name, runner class, settings that all sets of the cluster share) → the set, a component."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What the contents of a cluster need.

    `name` is its name in the settings. `ready` must exist before any chart: control plane and system nodes. `opts` name the
    cluster's Kubernetes provider. `backings` are the cloud's storage for each of its caches. With `git` each chart is an ArgoCD
    Application.
    `furnished` says that another program creates the teams' namespaces and their caches. `cloud` are the cloud's resources that
    the provider's own charts need. `physical_name` is the cluster's name in its cloud, and `disk_tags` are tags of the volumes of
    its own charts.
    """

    name: str
    settings: Cluster
    ready: Sequence[pulumi.Resource]
    opts: pulumi.ResourceOptions
    backings: Mapping[str, Backing] = field(default_factory=dict)
    git: GitOps | None = None
    furnished: bool = False
    cloud: Sequence[pulumi.Resource] = ()
    physical_name: str = ""
    disk_tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def deliver(self) -> Deliver:
        """Installs a chart."""
        return delivery(self.git)


def install(
    inside: Inside, fleet: Fleet, private_keys: PrivateKeys, machine_set: MachineSet | None = None
) -> dict[str, RunnerSetOutputs]:
    """Declare a cluster's contents. Returns the outputs of each runner set, by its name.

    `private_keys` are those of the GitHub Apps. `machine_set` declares a set whose runners are VMs. Raises TypeError for a runner
    class that is not a pod and has no builder.
    """
    if inside.settings.gitops is None:
        arc = furnish(inside, fleet, private_keys)
        sets = runner_sets(inside, fleet, arc, machine_set)
        declare_sweeps(inside, sets, arc)
    else:
        sets = _bootstrap(inside, fleet, inside.settings.gitops, private_keys, machine_set)
    return {name: {"namespace": runner_set.namespace_name, "labels": runner_set.runs_on} for name, runner_set in sets.items()}


def furnish(inside: Inside, fleet: Fleet, private_keys: PrivateKeys) -> Arc:
    """Declare the charts that make GPUs schedulable, ARC, and the teams' objects. Returns what runner sets share.

    `private_keys` are those of the GitHub Apps by scope, if the program writes their Secrets.
    """
    enabled = _enable(inside)
    for chart in plain_charts(inside.settings):
        args = PlainChartArgs(chart, inside.ready, inside.deliver)
        PlainChart(f"{inside.name}-{chart.name}", args, opts=inside.opts)
    if text := PROVIDERS[inside.settings.provider].priorities(inside.name, inside.settings):
        expander = PriorityExpanderArgs(text, inside.ready)
        PriorityExpander(f"{inside.name}-expander", expander, opts=inside.opts)
    of_arc = ArcControllerArgs(controller_chart(inside.settings), inside.ready, inside.deliver)
    controller = ArcController(f"{inside.name}-arc", of_arc, opts=inside.opts)
    classes = _teams(inside, fleet, controller.priority)
    operator = {OPERATOR_NAMESPACE: enabled.home} if isinstance(enabled, GpuOperator) else {}
    _monitor(inside, fleet, operator | ({ARC_NAMESPACE: controller.home} if controller.home is not None else {}))
    return Arc(
        fleet.github,
        private_keys,
        after=(*inside.ready, controller.priority, *classes, *((controller.release,) if controller.release else ())),
        closed=inside.settings.closed_networks,
        git=inside.git,
        secrets_of=inside.settings.secrets_of,
        home=controller.home,
    )


def _bootstrap(
    inside: Inside, fleet: Fleet, git: GitOps, private_keys: PrivateKeys, machine_set: MachineSet | None
) -> dict[str, RunnerSet]:
    """Declare what only the program can, and ArgoCD, which installs the rest from Git.

    Only the program knows the App's key and the cloud's ids, which caches need. It creates all team namespaces too: a namespace
    that moved here with its first cache would be deleted with everything in it. ArgoCD is declared last, so it and its objects
    are deleted first: a runner set cannot be deleted without its Secret.
    """
    declared: list[pulumi.Resource] = [*inside.cloud]
    if inside.settings.team_namespaces:
        spaces = _namespaces(inside, inside.ready)
        declared += [spaces, *_caches(inside, spaces).values()]
    arc = Arc(
        fleet.github,
        private_keys if isinstance(inside.settings.secrets_by, ByProgram) else {},
        after=inside.ready,
        closed=inside.settings.closed_networks,
        installs=False,
    )
    sets = runner_sets(inside, fleet, arc, machine_set)
    declared += [runner_set for runner_set in sets.values() if isinstance(runner_set, pulumi.Resource)]
    ArgoCd(f"{inside.name}-argocd", ArgoCdArgs(argo_cd(git.namespace), git, inside.ready, declared), opts=inside.opts)
    return sets


def runner_sets(inside: Inside, fleet: Fleet, arc: Arc, machine_set: MachineSet | None = None) -> dict[str, RunnerSet]:
    """Declare the runner sets; returns them by name. Raises TypeError as `install` does."""
    sets: dict[str, RunnerSet] = {}
    for name, runner in inside.settings.runners.items():
        if isinstance(runner, PodRunner):
            pods = pod_set_of(inside.settings, name, runner, fleet.github, waiting_per_node(inside.settings, runner))
            opts = _after(inside.opts, arc.after)
            scope = inside.settings.scope_of(runner)
            sets[name] = ArcRunnerSet.typed(f"{inside.name}-{name}", Read(arc.installed(pods, scope), *arc.app(scope)), opts)
        elif runner.whole_machine is not None and machine_set is not None:
            sets[name] = machine_set(name, runner, arc)
        else:
            raise TypeError(
                f"{inside.name}/{name}: nothing here builds runners of kind {runner.kind}; give install a machine_set"
            )
    return sets


def declare_sweeps(inside: Inside, sets: Mapping[str, RunnerSet], arc: Arc) -> None:
    """Declare the sweeps. `sets` are the runner sets that the same program declares: a sweep has rights in their namespaces.

    It also has rights in the namespace of the controller of `arc`.
    """
    if programs := sweeps(inside.settings):
        declared = sets.items() if inside.git is None else ()
        spaces: dict[str, pulumi.Resource] = {
            space: runner_set
            for name, runner_set in declared
            for space in (runner_namespace(name), jobs_namespace(name))
            if isinstance(runner_set, pulumi.Resource)
        }
        spaces |= {ARC_NAMESPACE: arc.home} if arc.home is not None and inside.git is None else {}
        args = SweepsArgs(programs, inside.settings.system_selector, inside.ready, spaces)
        Sweeps(f"{inside.name}-sweeps", args, opts=inside.opts)


def _monitor(inside: Inside, fleet: Fleet, spaces: Mapping[str, pulumi.Resource]) -> None:
    """Metrics, alerts and dashboards. `spaces` are the namespaces of other components' charts, by name."""
    settings = inside.settings
    if settings.monitoring is None:
        return
    args = GpuMonitoringArgs(
        charts=tuple(monitoring_charts(settings, inside.physical_name)),
        storage=[storage_class(settings, inside.disk_tags)] if settings.makes_class else [],
        objects=monitoring_objects(fleet, inside.name),
        ready=inside.ready,
        spaces=spaces,
        deliver=inside.deliver,
    )
    GpuMonitoring(f"{inside.name}-monitoring", args, opts=inside.opts)


def _teams(inside: Inside, fleet: Fleet, priority: pulumi.Resource) -> tuple[pulumi.Resource, ...]:
    """Declare the teams' objects: namespaces (each once, however many settings name it), queues, caches, workloads and jobs.

    Also the placeholders of pools, which need a namespace with the same isolation. Returns the priority classes.
    Each is created after the objects that it refers to, and so deleted before them. `priority` is the runners' priority class,
    which some workloads and the jobs outside of queues use, too.
    """
    settings = inside.settings
    classes: tuple[pulumi.Resource, ...] = ()
    if settings.priorities:
        args = PrioritiesArgs(settings.priorities, inside.ready)
        classes = Priorities(f"{inside.name}-priorities", args, opts=inside.opts).classes
    kueue = _kueue(inside, classes)
    if not settings.team_namespaces:
        return classes
    walls: dict[str, Sequence[pulumi.Resource]] = dict.fromkeys(settings.team_namespaces, ())
    caches: dict[str, ModelCache] = {}
    if not inside.furnished:
        # Kueue's webhooks check new objects in the teams' namespaces.
        spaces = _namespaces(inside, (*inside.ready, *([kueue.release] if kueue else [])))
        walls = {name: (spaces.spaces[name], *spaces.walls[name]) for name in settings.team_namespaces}
        caches = _caches(inside, spaces)
    needed = {name: (*wall, *classes, priority) for name, wall in walls.items()}
    # In a queue's namespace no workload is a Job, so workloads need no queue.
    _workloads(inside, caches, needed)
    for pool, manifest in placeholders(settings).items():
        args_of_pool = GpuWorkloadArgs((manifest,), needed[PLACEHOLDER_NAMESPACE])
        GpuWorkload(f"{inside.name}-{pool}-placeholders", args_of_pool, opts=inside.opts)
    _jobs(inside, fleet, caches, _needed_by_jobs(inside, kueue, walls, needed) if kueue else needed)
    return classes


def _namespaces(inside: Inside, ready: Sequence[pulumi.Resource]) -> Namespaces:
    """Every team namespace with its network policy and limits, created after `ready`."""
    return Namespaces(f"{inside.name}-namespaces", NamespacesArgs(homes(inside.settings), ready), opts=inside.opts)


def _kueue(inside: Inside, classes: Sequence[pulumi.Resource]) -> QueueController | None:
    """Kueue, if the settings have queues. It comes after `classes`, the priority classes of pods."""
    settings = inside.settings
    if settings.queues is None:
        return None
    objects, chart = queue_objects(inside.name, settings, settings.queues), kueue_chart(settings, settings.queues)
    args = QueueControllerArgs(chart, objects, (*inside.ready, *classes), inside.deliver)
    return QueueController(f"{inside.name}-queues", args, opts=inside.opts)


def _needed_by_jobs(
    inside: Inside,
    kueue: QueueController,
    walls: Mapping[str, Sequence[pulumi.Resource]],
    needed: Mapping[str, Sequence[pulumi.Resource]],
) -> dict[str, Sequence[pulumi.Resource]]:
    """What a Job of each namespace needs: all of `needed`, Kueue with its priorities, and the namespace's queues.

    Declares a queue for each team, and the LocalQueues of their namespaces. `walls` are each namespace with its isolation.
    """
    manifests: dict[str, Sequence[Manifest]] = {}
    ready: dict[str, Sequence[pulumi.Resource]] = {}
    for team, queue in kueue.teams.items():
        of_team = GpuQueue(f"{inside.name}-queues.{team}", GpuQueueArgs(queue, kueue.flavors), opts=inside.opts)
        manifests |= queue.local_queues
        ready |= {namespace: (of_team.cluster_queue, *walls.get(namespace, ())) for namespace in queue.local_queues}
    local = LocalQueues(f"{inside.name}-queues", LocalQueuesArgs(manifests, ready), opts=inside.opts)
    return {name: (*before, kueue, *local.made.get(name, ())) for name, before in needed.items()}


def _workloads(inside: Inside, caches: Mapping[str, ModelCache], ready: Mapping[str, Sequence[pulumi.Resource]]) -> None:
    """The workloads. Each depends on `ready` of its namespace, and on its volume's storage class if that is a cache's."""
    classes = {class_name(name): cache.storage_class for name, cache in caches.items()}
    for name, workload in inside.settings.workloads.items():
        storage = classes.get(_storage_class(workload))
        before = (*ready[workload.namespace], *((storage,) if storage is not None else ()))
        objects = workload_objects(inside.settings, name)
        GpuWorkload(f"{inside.name}-{name}", GpuWorkloadArgs(objects, before), opts=inside.opts)


def _storage_class(workload: Workload) -> str:
    """The storage class that a workload's volume names, or an empty text."""
    volume = workload.storage_asked if isinstance(workload, PoolWorkload) else None
    return (volume.storage_class or "") if volume is not None else ""


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
                homes={namespace: spaces.spaces[namespace] for namespace in cache.namespaces},
                protect=inside.settings.protect,
            ),
            opts=inside.opts,
        )
        for name, cache in inside.settings.caches.items()
    }


def _jobs(inside: Inside, fleet: Fleet, caches: Mapping[str, ModelCache], ready: Mapping[str, Sequence[pulumi.Resource]]) -> None:
    """The jobs. Each depends on `ready` of its namespace and on the claims that it mounts."""
    for name, job in inside.settings.jobs.items():
        manifest = place_stack_job(fleet, inside.name, name).manifest()
        mounted = [caches[claim].claims for claim in job.claims if claim in caches]
        claims = [claims[job.namespace] for claims in mounted if job.namespace in claims]
        GpuJob(f"{inside.name}-{name}", GpuJobArgs(manifest, (*ready[job.namespace], *claims)), opts=inside.opts)


def _enable(inside: Inside) -> pulumi.Resource | None:
    """The chart that makes GPUs schedulable, unless the cluster has it already. Returns its component.

    If the provider's add-on makes GPUs schedulable, the cluster component enables the add-on.
    """
    opts = _after(inside.opts, inside.ready)
    match enablement_of(inside.settings):
        case DevicePlugin() as plugin:
            return DevicePluginStack.typed(f"{inside.name}-device-plugin", plugin, opts)
        case GpuOperatorSettings() as operator:
            return GpuOperator.typed(f"{inside.name}-gpu-operator", operator, opts)
    return None


def _after(opts: pulumi.ResourceOptions, resources: Sequence[pulumi.Resource]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(resources)))
