"""How long a job waits for its runner, by phase.

The figures are public ones (`data/starts.csv`), not measurements of your fleet. A phase without a figure makes every sum a
lower bound.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from fleet.facts.pricing import Money
from fleet.facts.record import Record
from fleet.prove.bill import lines
from fleet.prove.room import standing
from fleet.providers.fleet import Fleet
from fleet.providers.phases import NEW, OF_MACHINES, PLACEHOLDER, READY, WAITING, Phase, done, node_phases, phase, pull, seconds
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner, Runner

PHASES = ("capacity", "boot", "driver", "plugin", "pull", "register")
"""The phases in their order: a free node is found or requested, boots, has its driver, advertises its GPUs, has the image of the
runner, and the runner registers and gets the job."""
JOB_PHASES = (*(f"job-{name}" for name in PHASES[:-1]), "job-copy")
"""The phases that follow for a job in containers: those of its own pod, and the copy of the workspace into it."""


class Start(Record):
    """A start from what the job finds, by phase. `low` and `high` are the seconds of the phases that have a figure."""

    finds: str
    phases: tuple[Phase, ...]

    @property
    def low(self) -> float:
        """Seconds that it takes at least."""
        return sum(each.low for each in self.phases)

    @property
    def high(self) -> float:
        """Seconds that the phases with a figure take at most."""
        return sum(each.high or 0 for each in self.phases)

    @property
    def gaps(self) -> tuple[str, ...]:
        """Names of the phases without a figure."""
        return tuple(each.name for each in self.phases if each.high is None)

    def __str__(self) -> str:
        missing = f" plus {' and '.join(self.gaps)} (not measured)" if self.gaps else ""
        return f"{seconds(self.low, self.high)}{missing}"


class Starts(Record):
    """The starts of one runner class: cold, and warm by what it has now, or else by a node of an earlier job.

    `finds` is what the first job finds, and `idle` is USD an hour of the pool or machines while no job runs.
    """

    cluster: str
    runner_set: str
    where: str
    finds: str
    idle: Money
    cold: Start
    warm: Start


def starts(fleet: Fleet, day: date) -> Iterator[Starts]:
    """The starts of every runner class, at the prices of a day, in the order of the config."""
    for name, cluster in fleet.clusters_by_name():
        bill = tuple(lines(name, cluster, day))
        for set_name, runner in cluster.runners.items():
            now, where, first, later = _found(cluster, runner), f"machines {set_name}", NEW, WAITING
            if isinstance(runner, PodRunner):
                where, first, later = f"pool {runner.ordered[0]}", _first(cluster.pools[runner.ordered[0]]), READY
            # None for runners whose own pods are on the system pool.
            items = (where, f"warm {where}", f"pool {getattr(runner, 'runner_pool', None)}")
            idle = sum((line.idle for line in bill if line.item in items), Money())
            cold, warm = _start(cluster, runner, first, fresh=True), _start(cluster, runner, later if now == NEW else now)
            yield Starts(name, set_name, where, now, idle, cold, warm)


def _first(pool: Pool) -> str:
    """What the first pod on a node of a pool finds."""
    return READY if pool.nodes.min == pool.nodes.max else NEW


def _found(cluster: Cluster, runner: Runner) -> str:
    """What the first job of a class finds while no job runs. A runner that waits for a job in containers holds no GPU for it."""
    if runner.span.min and not runner.needs_container:
        return WAITING
    if not isinstance(runner, PodRunner):
        return NEW
    pool: Pool = cluster.pools[runner.ordered[0]]
    if pool.placeholders:
        return PLACEHOLDER
    # All nodes always run, or one of those that always run is free.
    if pool.nodes.min == pool.nodes.max or pool.nodes.min >= _least_nodes(cluster, runner):
        return READY
    return OF_MACHINES.get(cluster.waiting_machines(pool), NEW)


def _least_nodes(cluster: Cluster, runner: PodRunner) -> int:
    """The nodes of which one is free for the runner while no job runs, wherever the pods are that always run in its pool."""
    name = runner.ordered[0]
    pool: Pool = cluster.pools[name]
    # Without GPUs a waiting runner counts as a whole node, because nothing says where it is.
    sets = (row for row in cluster.pod_sets(name).values() if not row.in_containers)
    taken = sum(row.span.min * max(row.gpus, 1) for row in sets) + sum(each.units for _, each in standing(cluster, name))
    # A node is full for the runner if this many of its units are taken.
    return taken // max(min(map(pool.units, pool.machines)) - runner.gpus + 1, 1) + 1


def _start(cluster: Cluster, runner: Runner, finds: str, *, fresh: bool = False) -> Start:
    """The start of a job that finds this. On a `fresh` node no job has run, so it pulls the image."""
    if isinstance(runner, PodRunner) and runner.in_containers:
        return Start(finds, (*_launch(cluster, runner, fresh=fresh), *_job_pod(cluster, runner, finds, fresh=fresh)))
    last = phase("register", "waiting" if finds == WAITING else "new")
    return Start(finds, (*_phases(cluster, runner, finds, fresh=fresh), last))


def _phases(cluster: Cluster, runner: Runner, finds: str, *, fresh: bool) -> Iterator[Phase]:
    """All phases but the last one."""
    if finds == WAITING:
        yield from map(done, PHASES[:-1])
    elif not isinstance(runner, PodRunner):
        yield phase("capacity", "launcher")
        yield phase("boot", PROVIDERS[cluster.provider].boots)
        yield phase("driver", "image")
        yield done("plugin", "a machine needs none")
        yield phase("pull", "machine")
    else:
        pool = cluster.pools[runner.ordered[0]]
        yield from node_phases(cluster, pool, finds)
        pulled = {PLACEHOLDER: "the placeholder has pulled the image"}
        pulled |= {} if fresh else {READY: _PULLED}
        yield done("pull", pulled[finds]) if finds in pulled else pull(pool, runner)


_PULLED = "an earlier job on the node has pulled the image"


def _launch(cluster: Cluster, runner: PodRunner, *, fresh: bool) -> Iterator[Phase]:
    """The phases of a runner that starts the pod of its job, on a node without GPUs."""
    if runner.span.min and not fresh:
        yield from map(done, PHASES[:-1])
        yield phase("register", "waiting")
        return
    # Nodes of the system pool always run.
    pool = cluster.pools[runner.runner_pool] if runner.runner_pool is not None else None
    yield from node_phases(cluster, pool, _first(pool) if pool is not None and fresh else READY)
    yield phase("pull", "runner") if fresh else done("pull", _PULLED)
    yield phase("register", "new")


def _job_pod(cluster: Cluster, runner: PodRunner, finds: str, *, fresh: bool) -> Iterator[Phase]:
    """The phases of the pod of a job. No placeholder knows its image, which the workflow names."""
    pool = cluster.pools[runner.ordered[0]]
    image = done("pull", _PULLED) if finds == READY and not fresh else pull(pool, runner)
    for part in (*node_phases(cluster, pool, finds), image, phase("copy", "workspace")):
        yield replace(part, name=f"job-{part.name}")
