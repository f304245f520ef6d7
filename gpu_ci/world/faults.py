"""Drills: what goes wrong with fleets, while jobs run. `drills.toml` has their texts, and docs/drills.md what they showed."""

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from fleet.charts.arc import CONTROLLER, arc_controller, controller_of
from fleet.charts.sweeps import NAMESPACE as SWEEPS
from fleet.facts.errors import InputError, instead, quoted
from fleet.facts.scheduling import SAFE_TO_EVICT, SCALE_SET_LABEL
from fleet.facts.tables import beside
from fleet.render.sweeps.api import Object
from fleet.settings.monitoring import Monitoring
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE, runner_namespace
from fleet.settings.runner import PodRunner
from gpu_ci.world.metrics import MOST_FACTOR
from gpu_ci.world.plane import FAILS, FAKE_NODE, merge, owner_of
from gpu_ci.world.processes import WorldError
from gpu_ci.world.record import unexpected
from gpu_ci.world.run import World
from gpu_ci.world.scale_sets import Fault, Job
from gpu_ci.world.steps import Release, Step, Steps

ALL = "all"
EARLY, _GO_ON = 3, 12.0
"""How many jobs run when the fault begins, and for how many seconds they go on."""
_SHORT = 2.0
_STUCK, _PATIENCE = 20, 180
"""Seconds without any change after which a fault counts as one that does not heal: one that is known for it, and any other."""
_ADDED = "gpu-ci-drill"
"""What an update adds."""

Act = Callable[[World], object]


class Acts(NamedTuple):
    """What a drill does: `strike` begins the fault, `heal` ends it, `way_out` frees jobs that would wait without end.

    `changes`: it changes what is installed, so that an installation afterwards puts it right. `applies`: whether the stack has
    what the drill is about.
    """

    strike: Act
    heal: Act | None = None
    way_out: Act | None = None
    changes: bool = False
    applies: Callable[[World], object] = lambda _: True


class Drill(NamedTuple):
    """A fault with its texts and limits, as in `drills.toml`."""

    name: str
    acts: Acts
    what: str
    sees: str
    lasts: float = 0
    lose: int = 0
    jobs: int = 9
    takes: float = 2
    open: str = ""


class Outcome(NamedTuple):
    """What a drill showed. `seconds` are of a real clock, from the strike until all jobs had ended. `freed`: so many of them came
    after the way out. `against` is empty if the drill went as it should.
    """

    drill: str
    seconds: float
    freed: float | None
    jobs: int
    lost: int
    alerts: Sequence[str]
    against: str


def named(text: str | None, factor: float) -> list[Drill]:
    """The drill of this name, all, or none without a name. Raises InputError, also for a factor that alerts cannot follow."""
    if text is None:
        return []
    if text not in (known := [*DRILLS, ALL]):
        raise InputError(f"--faults: no drill is named {quoted(text)}; {instead(text, known, 'one of ' + ', '.join(known))}")
    if factor > MOST_FACTOR:
        raise InputError(f"--factor: must be at most {MOST_FACTOR} with --faults, so that alerts keep up; got {factor:g}")
    return [drill for name, drill in DRILLS.items() if text in (name, ALL)]


def prepare(world: World) -> None:
    """Let ARC have its metrics, also in a stack without monitoring, and shorten the times for which GitHub waits."""
    world.github.poll, world.github.session_expires, world.github.lost_after = 5, 15, 600 / world.options.factor
    metrics = arc_controller(metrics=True).values["metrics"]
    world.steps = {**world.steps, **_edited(world, CONTROLLER, lambda _: {"metrics": metrics})}


def run(world: World, drills: Sequence[Drill], look: Callable[[], None]) -> list[Outcome]:
    """Run those of the drills that apply to the stack, one after another, with the alerts that monitoring would install."""
    metrics = world.metrics or world.monitored(world.settings.monitoring or Monitoring(prometheus="existing"))

    def firing() -> set[str]:
        return set() if metrics is None else set(metrics.alerts())

    return [drilled(world, drill, firing, look) for drill in drills if drill.acts.applies(world)]


def drilled(world: World, drill: Drill, firing: Callable[[], set[str]], look: Callable[[], None]) -> Outcome:
    """Queue jobs, strike while some run, queue more, heal, and wait until all have ended."""
    github, name, first = world.github, _class(world), len(world.github.jobs)
    alerts, against = set[str](), list[str]()

    def watch() -> None:
        look()
        with suppress(OSError):
            alerts.update(firing())

    def until(ready: Callable[[Sequence[Job]], bool], still: float = _PATIENCE) -> bool:
        return world.work(0, watch, lambda: ready(github.jobs[first:]), still)

    def act(does: Act | None) -> None:
        try:
            _ = does and does(world)
        except (WorldError, StopIteration, *FAILS) as error:
            against.append(str(error) or repr(error))

    early = [github.queue((name,), seconds=math.inf) for _ in range(EARLY)]
    if not until(lambda jobs: all(job.state == "running" for job in jobs)):
        return Outcome(drill.name, 0, None, EARLY, 0, (), "its first jobs did not start")
    began, before = time.time(), firing()
    alerts.clear()
    for job in early:
        job.seconds = began + _GO_ON - job.started
    act(drill.acts.strike)
    for _ in range(drill.jobs):
        github.queue((name,), seconds=drill.takes)
    end = time.time() + drill.lasts
    until(lambda _: time.time() > end)
    act(drill.acts.heal)
    healed, freed = until(_ended, _STUCK if drill.open else _PATIENCE), None
    if drill.acts.way_out is not None:
        against += ["it heals by itself, which drills.toml does not say"] if healed else []
        out = time.time()
        act(drill.acts.way_out)
        healed, freed = until(_ended), time.time() - out
    seconds, jobs = time.time() - began, github.jobs[first:]
    lost = sum(job.state == "completed" and job.result != "succeeded" for job in jobs)
    against += [] if healed else [f"{sum(job.state != 'completed' for job in jobs)} jobs have not ended"]
    against += [f"{lost} jobs are lost"] if lost > drill.lose else []
    act(World.install if drill.acts.changes else None)
    return Outcome(drill.name, seconds, freed, len(jobs), lost, sorted(alerts - before), "; ".join(against))


def _ended(jobs: Sequence[Job]) -> bool:
    return all(job.state == "completed" for job in jobs)


# -- where ---------------------------------------------------------------------------------------------------------------


def _class(world: World) -> str:
    """The runner class whose jobs drills queue: the one with the most runners."""
    runners: Mapping[str, PodRunner] = world.settings.pod_runners
    return max(runners, key=lambda name: runners[name].scale.max)


def _node(world: World) -> str:
    """A node on which a job runs."""
    nodes: dict[str, str] = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in world.pods.values()}
    return next(nodes[job.runner.name] for job in world.github.jobs if job.state == "running" and job.runner)


def _listener(world: World) -> tuple[str, str]:
    """Namespace and name of the pod of the class's listener."""
    space = controller_of(world.settings).namespace
    pods = [pod for pod in world.pods.values() if owner_of(pod)[0] == "AutoscalingListener"]
    mine = [pod for pod in pods if pod["metadata"]["labels"].get(SCALE_SET_LABEL) == _class(world)]
    return space, mine[0]["metadata"]["name"]


# -- acts ----------------------------------------------------------------------------------------------------------------


def _refuse(world: World, *zones: str, pool: str = "") -> None:
    for zone in zones or ("",):
        world.cloud.refuse(pool, zone)


def _fault(*kinds: str, what: Any, seconds: int = 0) -> Act:
    return lambda world: world.github.faults.extend(Fault(kind, what, math.inf, seconds=seconds) for kind in kinds)


def _calm(world: World) -> None:
    with world.github.state:
        world.github.faults.clear()


def _speak(world: World) -> None:
    """Every silent kubelet speaks again."""
    for name in [node["metadata"]["name"] for node in world.nodes.values() if FAKE_NODE not in node["metadata"]["annotations"]]:
        world.cloud.silence(name, silent=False)


def _rerun(world: World) -> None:
    """Run a job again whose set has no other."""
    github, name = world.github, _class(world)
    world.work(0, lambda: None, lambda: _ended(github.jobs))
    github.loses_reruns = True
    github.rerun(next(job for job in reversed(github.jobs) if job.runs_on == (name,)))
    github.loses_reruns = False


def _outdated(world: World) -> None:
    world.github.outdated = 1


def _free(world: World) -> None:
    """Do what the command of docs/troubleshooting.md does."""
    name = _class(world)
    path = f"/apis/actions.github.com/v1alpha1/namespaces/{runner_namespace(name)}/autoscalingrunnersets/{name}/status"
    merge(world.plane.api, path, {"status": {"phase": "Pending"}})


def _edited(world: World, name: str, change: Callable[[Object], Object]) -> dict[str, Step]:
    """The step of a release, with more values."""
    for urn, step in world.steps.items():
        if isinstance(step.content, Release) and step.content.name == name:
            values = step.content.values
            return {urn: step._replace(content=step.content._replace(values={**values, **change(values)}))}
    raise KeyError(name)


def _install(name: Callable[[World], str], change: Callable[[Object], Object]) -> Act:
    """Install a release with more values."""
    return lambda world: world.installer.install(_edited(world, name(world), change))


def _other_pods(values: Object) -> Object:
    metadata = {"metadata": {"annotations": {SAFE_TO_EVICT: "false", _ADDED: "true"}}}
    return {"template": values["template"] | metadata, "minRunners": 1}


def _labelled(world: World) -> Steps:
    return _edited(world, _class(world), lambda values: {"scaleSetLabels": [*values["scaleSetLabels"], _ADDED]})


def _labels(world: World) -> None:
    world.installer.install(_labelled(world))
    world.github.queue((_ADDED,), seconds=_SHORT)


def _anew(world: World) -> None:
    """Remove the set, and add it again."""
    world.installer.remove(_labelled(world), Random(0))  # noqa: S311 - no secret
    world.installer.install(_labelled(world))


def _quota(world: World) -> None:
    """Let the namespace have no more than it has."""
    path = f"/api/v1/namespaces/{runner_namespace(_class(world))}/resourcequotas/runners"
    used = world.plane.api.call("GET", path)["status"]["used"]
    merge(world.plane.api, path, {"spec": {"hard": used}})


def _preempt(world: World) -> None:
    """Queue a job for each placeholder, and wait until one has gone."""
    here = {pod["metadata"]["uid"] for pod in _placeholders(world)}
    pools = _pools_with_placeholders(world)
    classes = [name for name, runner in world.settings.pod_runners.items() if pools & {*runner.ordered}]
    for name in classes:
        world.github.queue((name,), seconds=_SHORT)
    world.plane.wait(lambda: bool(here - {pod["metadata"]["uid"] for pod in _placeholders(world)}), "a placeholder makes room")


def _pools_with_placeholders(world: World) -> set[str]:
    return {name for name, pool in world.settings.pools.items() if pool.placeholders}


def _placeholders(world: World) -> list[Object]:
    pods = [pod for pod in world.pods.values() if pod["metadata"]["namespace"] == PLACEHOLDER_NAMESPACE]
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def _without_sweeps(world: World) -> None:
    """Let no sweep run, and lose a machine."""
    for step in world.steps.values():
        entry = step.content if isinstance(step.content, dict) else {}
        if entry.get("kind") == "Deployment" and entry["metadata"].get("namespace") == SWEEPS:
            merge(world.plane.api, world.plane.path(entry), {"spec": {"replicas": 0}})
    world.cloud.lose(_node(world))


def _remove(world: World) -> None:
    if left := unexpected(world.remove(Random(0))):  # noqa: S311 - no secret
        raise WorldError(f"its removal leaves {', '.join(left[:5])}")


ACTS: Mapping[str, Acts] = {
    "nothing": Acts(lambda world: None),
    "first-pool-refused": Acts(
        lambda world: _refuse(world, pool=world.settings.pod_runners[_class(world)].ordered[0]),
        lambda world: world.cloud.accept(),
    ),
    "zones-refused": Acts(lambda world: _refuse(world, *world.settings.zones[:2]), lambda world: world.cloud.accept()),
    "capacity-refused": Acts(_refuse, lambda world: world.cloud.accept()),
    "node-lost": Acts(lambda world: world.cloud.lose(_node(world))),
    "gpu-lost": Acts(lambda world: world.cloud.lose_gpus(_node(world))),
    "kubelet-silent": Acts(lambda world: world.cloud.silence(_node(world)), _speak),
    "listener-killed": Acts(lambda world: world.hands.run(*_listener(world)).send(signal.SIGKILL)),
    "message-lost": Acts(_fault("JobAssigned", what="lose"), _calm),
    "message-repeated": Acts(_fault("JobAssigned", "JobStarted", "JobCompleted", what="repeat"), _calm),
    "message-late": Acts(_fault("JobAssigned", "JobStarted", "JobCompleted", what="delay", seconds=10), _calm),
    "rerun-unheard": Acts(_rerun, None, lambda world: world.github.queue((_class(world),), seconds=_SHORT)),
    "runner-outdated": Acts(_outdated, None, _free),
    **{f"github-{status}": Acts(_fault("", what=status), _calm) for status in (401, 403, 429, 500)},
    # Killed, because it would take a minute to stop.
    "api-restarted": Acts(lambda world: world.plane.processes.stop("kube-apiserver", grace=0), lambda world: world.plane.serve()),
    "controller-upgraded": Acts(_install(lambda _: CONTROLLER, lambda _: {"podAnnotations": {_ADDED: "true"}}), changes=True),
    "template-changed": Acts(_install(_class, _other_pods), changes=True),
    "labels-changed": Acts(_labels, None, _anew, changes=True),
    "quota-filled": Acts(_quota, World.install),
    "placeholders-preempted": Acts(_preempt, applies=_pools_with_placeholders),
    "sweeps-down": Acts(_without_sweeps, World.install),
    "stack-removed": Acts(_remove, World.install),
}
DRILLS = {name: Drill(name, ACTS[name], **texts) for name, texts in beside(__file__, "drills.toml").items()}
"""All drills by name, in their order."""
