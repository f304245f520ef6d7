"""The contents of a cluster on any provider: the chart that makes GPUs schedulable, ARC, runner sets, and what teams use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pulumi

from components.component import Resources
from components.context import PrivateKeys
from components.kubernetes.admission import Admission
from components.kubernetes.arc_runner_set import ArcRunnerSet, Read
from components.kubernetes.enablement import DevicePluginStack, GpuOperator
from components.kubernetes.gpu_workload import GpuJob, GpuWorkload
from components.kubernetes.in_cluster import Inside
from components.kubernetes.leaving import Owner, leave
from components.kubernetes.model_cache import ModelCache
from components.kubernetes.namespaces import Namespaces
from components.kubernetes.plain_chart import ArcController, ArgoCd, GpuMonitoring, PlainChart
from components.kubernetes.priorities import Priorities, PriorityExpander
from components.kubernetes.queues import GpuQueue, LocalQueues, QueueController
from components.kubernetes.scale_set import Arc
from components.kubernetes.sweeps import Sweeps
from components.outputs import RunnerSetOutputs
from fleet.charts.arc import NAMESPACE as ARC_NAMESPACE
from fleet.charts.enablement import DevicePlugin
from fleet.charts.gpu_operator import NAMESPACE as OPERATOR_NAMESPACE, GpuOperatorSettings
from fleet.facts.manifest import Manifest
from fleet.facts.scheduling import GENERATION_ANNOTATION
from fleet.jobs.stack import place_stack_job
from fleet.prove.bill import waiting_per_node
from fleet.providers.fleet import Fleet
from fleet.providers.installed import enablement_of, kueue_chart, plain_charts, pod_set_of
from fleet.providers.registry import PROVIDERS
from fleet.render.admission import admission
from fleet.render.isolation import homes
from fleet.render.placeholders import placeholders
from fleet.render.queues import queue_objects
from fleet.render.sweeps.sweep import sweeps
from fleet.render.workloads.catalogue import workload_objects
from fleet.settings.caches import class_name
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


BySpace = Mapping[str, Resources]
"""Resources by the namespace that needs them."""
MachineSet = Callable[[str, Any, Arc], RunnerSet]
"""(set name, runner class, settings that all sets of the cluster share) → the set, a component."""


def install(
    inside: Inside, fleet: Fleet, private_keys: PrivateKeys, machine_set: MachineSet | None = None, owner: Owner | None = None
) -> dict[str, RunnerSetOutputs]:
    """Declare a cluster's contents. Returns the outputs of each runner set, by its name.

    `private_keys` are those of the GitHub Apps. `machine_set` declares a set whose runners are VMs, and `owner` what
    one of a removed class needs. Raises TypeError for a runner class that is not a pod and has no builder.
    """
    if inside.settings.gitops is None:
        arc = furnish(inside, fleet, private_keys)
        sets = runner_sets(arc, machine_set)
        leave(inside, arc.after, owner)
        declare_sweeps(arc, sets)
    else:
        sets = _bootstrap(inside, fleet, inside.settings.gitops, private_keys, machine_set)
    return {name: {"namespace": runner_set.namespace_name, "labels": runner_set.runs_on} for name, runner_set in sets.items()}


def furnish(inside: Inside, fleet: Fleet, private_keys: PrivateKeys) -> Arc:
    """Declare the charts that make GPUs schedulable, ARC, and the teams' objects. Returns what runner sets share.

    `private_keys` are those of the GitHub Apps by scope, if the program writes their Secrets.
    """
    enabled = _enable(inside)
    if rules := tuple(admission(inside.settings)):
        Admission(f"{inside.name}-admission", inside.opts, rules, inside.ready)
    for chart in plain_charts(inside.settings):
        PlainChart(f"{inside.name}-{chart.name}", inside.opts, inside, chart)
    if text := PROVIDERS[inside.settings.provider].priorities(inside.name, inside.settings):
        PriorityExpander(f"{inside.name}-expander", inside.opts, text, inside.ready, "")
    controller = ArcController(f"{inside.name}-arc", inside.opts, inside)
    classes = _teams(inside, fleet, controller.priority)
    operator = {OPERATOR_NAMESPACE: enabled.home} if isinstance(enabled, GpuOperator) else {}
    if inside.settings.monitoring is not None:
        spaces = operator | ({ARC_NAMESPACE: controller.home} if controller.home is not None else {})
        GpuMonitoring(f"{inside.name}-monitoring", inside.opts, inside, fleet, spaces)
    after = (*inside.ready, controller.priority, *classes, *((controller.release,) if controller.release else ()))
    return Arc(inside, fleet.github, private_keys, after, home=controller.home)


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
    keys = private_keys if isinstance(inside.settings.secrets_by, ByProgram) else {}
    sets = runner_sets(Arc(inside, fleet.github, keys, inside.ready, installs=False), machine_set)
    declared += [runner_set for runner_set in sets.values() if isinstance(runner_set, pulumi.Resource)]
    ArgoCd(f"{inside.name}-argocd", inside.opts, inside, git, declared)
    return sets


def runner_sets(arc: Arc, machine_set: MachineSet | None = None) -> dict[str, RunnerSet]:
    """Declare the runner sets; returns them by name. Raises TypeError as `install` does."""
    inside, sets = arc.inside, dict[str, RunnerSet]()
    for name, runner in inside.settings.runners.items():
        if isinstance(runner, PodRunner):
            pods = pod_set_of(inside.settings, name, runner, arc.github, waiting_per_node(inside.settings, runner))
            opts = _after(inside.opts, arc.after)
            scope = inside.settings.scope_of(runner)
            read = Read(arc.installed(pods, scope), *arc.app(scope), inside.generations)
            sets[name] = ArcRunnerSet.typed(f"{inside.name}-{name}", read, opts)
        elif runner.whole_machine is not None and machine_set is not None:
            sets[name] = machine_set(name, runner, arc)
        else:
            where = f"{inside.name}/{name}"
            raise TypeError(f"{where}: nothing here builds runners of kind {runner.kind}; give install a machine_set")
    return sets


def declare_sweeps(arc: Arc, sets: Mapping[str, RunnerSet]) -> None:
    """Declare the sweeps. `sets` are the runner sets that the same program declares: a sweep has rights in their namespaces.

    It also has rights in the namespace of the controller of `arc`.
    """
    inside = arc.inside
    if programs := sweeps(inside.settings):
        declared = sets.items() if inside.git is None else ()
        spaces: dict[str, pulumi.Resource] = {
            space: runner_set
            for name, runner_set in declared
            for space in (runner_namespace(name), jobs_namespace(name))
            if isinstance(runner_set, pulumi.Resource)
        }
        spaces |= {ARC_NAMESPACE: arc.home} if arc.home is not None and inside.git is None else {}
        Sweeps(f"{inside.name}-sweeps", inside.opts, inside, programs, spaces)


def _teams(inside: Inside, fleet: Fleet, priority: pulumi.Resource) -> tuple[pulumi.Resource, ...]:
    """Declare the teams' objects: namespaces (each once, however many settings name it), queues, caches, workloads and jobs.

    Also the placeholders of pools, which need a namespace with the same isolation. Returns the priority classes.
    Each is created after the objects that it refers to, and so deleted before them. `priority` is the runners' priority class,
    which some workloads and the jobs outside of queues use, too.
    """
    settings = inside.settings
    classes: tuple[pulumi.Resource, ...] = ()
    if settings.priorities:
        classes = Priorities(f"{inside.name}-priorities", inside.opts, settings.priorities, inside.ready).classes
    kueue = _kueue(inside, classes)
    if not settings.team_namespaces:
        return classes
    walls: dict[str, Resources] = dict.fromkeys(settings.team_namespaces, ())
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
        generation, leaving = inside.moves.get(pool, ("", ()))
        if generation:
            # Other placeholders take their place, on new nodes: an old one would hold its node.
            manifest["spec"]["template"]["metadata"]["annotations"] = {GENERATION_ANNOTATION: generation}
        before = (*needed[PLACEHOLDER_NAMESPACE], *leaving)
        GpuWorkload(f"{inside.name}-{pool}-placeholders", inside.opts, (manifest,), before)
    _jobs(inside, fleet, caches, _needed_by_jobs(inside, kueue, walls, needed) if kueue else needed)
    return classes


def _namespaces(inside: Inside, ready: Resources) -> Namespaces:
    """Every team namespace with its network policy and limits, created after `ready`."""
    return Namespaces(f"{inside.name}-namespaces", inside.opts, homes(inside.settings), ready)


def _kueue(inside: Inside, classes: Resources) -> QueueController | None:
    """Kueue, if the settings have queues. It comes after `classes`, the priority classes of pods."""
    if (settings := inside.settings).queues is None:
        return None
    objects, chart = queue_objects(inside.name, settings, settings.queues), kueue_chart(settings, settings.queues)
    return QueueController(f"{inside.name}-queues", inside.opts, chart, objects, (*inside.ready, *classes), inside.git)


def _needed_by_jobs(inside: Inside, kueue: QueueController, walls: BySpace, needed: BySpace) -> BySpace:
    """What a Job of each namespace needs: all of `needed`, Kueue with its priorities, and the namespace's queues.

    Declares a queue for each team, and the LocalQueues of their namespaces. `walls` are each namespace with its isolation.
    """
    manifests: dict[str, Sequence[Manifest]] = {}
    ready: dict[str, Resources] = {}
    for team, queue in kueue.teams.items():
        of_team = GpuQueue(f"{inside.name}-queues.{team}", inside.opts, queue, kueue.flavors)
        manifests |= queue.local_queues
        ready |= {namespace: (of_team.cluster_queue, *walls.get(namespace, ())) for namespace in queue.local_queues}
    local = LocalQueues(f"{inside.name}-queues", inside.opts, manifests, ready)
    return {name: (*before, kueue, *local.made.get(name, ())) for name, before in needed.items()}


def _workloads(inside: Inside, caches: Mapping[str, ModelCache], ready: Mapping[str, Resources]) -> None:
    """The workloads. Each depends on `ready` of its namespace, and on its volume's storage class if that is a cache's."""
    classes = {class_name(name): cache.storage_class for name, cache in caches.items()}
    for name, workload in inside.settings.workloads.items():
        storage = classes.get(_storage_class(workload))
        before = (*ready[workload.namespace], *((storage,) if storage is not None else ()))
        GpuWorkload(f"{inside.name}-{name}", inside.opts, workload_objects(inside.settings, name), before)


def _storage_class(workload: Workload) -> str:
    """The storage class that a workload's volume names, or an empty text."""
    volume = workload.storage_asked if isinstance(workload, PoolWorkload) else None
    return (volume.storage_class or "") if volume is not None else ""


def _caches(inside: Inside, homes: Namespaces) -> dict[str, ModelCache]:
    """The caches by name."""
    return {name: ModelCache(f"{inside.name}-{name}", inside.opts, inside, name, homes.spaces) for name in inside.settings.caches}


def _jobs(inside: Inside, fleet: Fleet, caches: Mapping[str, ModelCache], ready: Mapping[str, Resources]) -> None:
    """The jobs. Each depends on `ready` of its namespace and on the claims that it mounts."""
    for name, job in inside.settings.jobs.items():
        manifest = place_stack_job(fleet, inside.name, name).manifest()
        mounted = [caches[claim].claims for claim in job.claims if claim in caches]
        claims = [claims[job.namespace] for claims in mounted if job.namespace in claims]
        GpuJob(f"{inside.name}-{name}", inside.opts, manifest, (*ready[job.namespace], *claims))


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


def _after(opts: pulumi.ResourceOptions, resources: Resources) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(resources)))
