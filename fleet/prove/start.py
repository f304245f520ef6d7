"""How long a job waits for its runner, by phase.

The figures are public ones (`data/starts.csv`), not measurements of your fleet. A phase without a figure makes every sum a
lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from fleet.facts.disks import write_seconds
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.pricing import Money
from fleet.facts.tables import entry, rows
from fleet.prove.bill import lines
from fleet.prove.room import standing
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner, Runner

PHASES = ("capacity", "boot", "driver", "plugin", "pull", "register")
"""The phases in their order: a free node is found or requested, boots, has its driver, advertises its GPUs, has the image of the
runner, and the runner registers and gets the job."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, in seconds. `kind` is measured, stated or derived. A row without seconds is a gap: `kind` is empty."""

    phase: str
    means: str
    low_s: int | None
    high_s: int | None
    kind: str
    note: str
    source: str


ROWS = tuple(entry(Row, row) for row in rows("starts.csv"))


@dataclass(frozen=True, slots=True)
class Phase:
    """The seconds of one phase, from `low` to `high`. `high` is None if no source has a figure; `low` is then 0."""

    name: str
    low: float
    high: float | None
    note: str
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "not measured" if self.high is None else seconds(self.low, self.high)


def seconds(low: float, high: float) -> str:
    """A range of seconds: "80-120 s", or "80 s" if both ends are equal."""
    return f"{low:.0f} s" if round(low) == round(high) else f"{low:.0f}-{high:.0f} s"


def phase(name: str, means: str) -> Phase:
    """The phase as all rows of `means` give it together: from the least to the greatest figure.

    Raises KeyError if the table has no row.
    """
    if not (figures := [row for row in ROWS if (row.phase, row.means) == (name, means)]):
        raise KeyError(f"{name}, {means}")
    note = "; ".join(f"{row.note} ({row.kind})" if row.kind else row.note for row in figures)
    low = min((row.low_s for row in figures if row.low_s is not None), default=0)
    high = max((row.high_s for row in figures if row.high_s is not None), default=None)
    return Phase(name, low, high, note, tuple(row.source for row in figures if row.source))


def done(name: str, note: str = "done before the job") -> Phase:
    """A phase that a start does not wait for."""
    return Phase(name, 0, 0, note)


NEW, READY, PLACEHOLDER, WAITING = "nothing", "a node that is ready", "a placeholder", "a waiting runner"
STOPPED, RUNNING = "a stopped machine of the warm pool", "a running machine of the warm pool"
"""What a job finds when it starts."""


@dataclass(frozen=True, slots=True)
class Start:
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


@dataclass(frozen=True, slots=True)
class Starts:
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
            pool = cluster.pools[runner.ordered[0]] if isinstance(runner, PodRunner) else None
            now = _found(cluster, runner)
            first = READY if pool is not None and pool.nodes.min == pool.nodes.max else NEW
            later = READY if pool is not None else WAITING
            where = f"pool {runner.ordered[0]}" if isinstance(runner, PodRunner) else f"machines {set_name}"
            idle = sum((line.idle for line in bill if line.item in (where, f"warm {where}")), Money())
            cold, warm = _start(cluster, runner, first, fresh=True), _start(cluster, runner, later if now == NEW else now)
            yield Starts(name, set_name, where, now, idle, cold, warm)


def _found(cluster: Cluster, runner: Runner) -> str:
    """What the first job of a class finds while no job runs."""
    if runner.span.min:
        return WAITING
    if not isinstance(runner, PodRunner):
        return NEW
    pool: Pool = cluster.pools[runner.ordered[0]]
    if pool.placeholders:
        return PLACEHOLDER
    # All nodes always run, or one of those that always run is free.
    if pool.nodes.min == pool.nodes.max or pool.nodes.min >= _least_nodes(cluster, runner):
        return READY
    return {"stopped": STOPPED, "running": RUNNING}.get(cluster.waiting_machines(pool), NEW)


def _least_nodes(cluster: Cluster, runner: PodRunner) -> int:
    """The nodes of which one is free for the runner while no job runs, wherever the pods are that always run in its pool."""
    name = runner.ordered[0]
    pool: Pool = cluster.pools[name]
    # Without GPUs a waiting runner counts as a whole node, because nothing says where it is.
    waiting = sum(each.span.min * max(each.gpus, 1) for each in cluster.pod_sets(name).values())
    taken = waiting + sum(each.units for _, each in standing(cluster, name))
    # A node is full for the runner if this many of its units are taken.
    full = min(map(pool.units, pool.machines)) - runner.gpus + 1
    return taken // max(full, 1) + 1


def _start(cluster: Cluster, runner: Runner, finds: str, *, fresh: bool = False) -> Start:
    """The start of a job that finds this. On a `fresh` node no job has run, so it pulls the image."""
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
        yield from _node_phases(cluster, pool, finds)
        pulled = {PLACEHOLDER: "the placeholder has pulled the image"}
        pulled |= {} if fresh else {READY: "an earlier job on the node has pulled the image"}
        yield done("pull", pulled[finds]) if finds in pulled else _pull(pool, runner)


def _node_phases(cluster: Cluster, pool: Pool, finds: str) -> Iterator[Phase]:
    """Capacity, boot, driver and plugin of a node of a pool."""
    if finds in (READY, PLACEHOLDER):
        yield phase("capacity", "ready" if finds == READY else "placeholder")
        yield from map(done, ("boot", "driver", "plugin"))
    else:
        yield phase("capacity", "autoscaler")
        means = {STOPPED: "ec2-stopped", RUNNING: "ec2-running"}.get(finds, PROVIDERS[cluster.provider].boots)
        yield phase("boot", means)
        if pool.has_gpus:
            yield phase("driver", "image" if NODE_IMAGES[pool.image].driver else "operator")
            yield phase("plugin", "device-plugin")
        else:
            yield from (done(name, "a node without GPUs needs none") for name in ("driver", "plugin"))


def _pull(pool: Pool, runner: PodRunner) -> Phase:
    """The pull of the image. With its size, the disk gives the least time: bytes over throughput of the fastest machine."""
    if pool.images_on_array:
        return phase("pull", "local-disk")
    found = phase("pull", "image")
    if runner.image_size is None:
        return Phase("pull", 0, found.high, f"imageSize is not set; published pulls: {found.note}", found.sources)
    speeds = [pool.disk_throughput(machine) for machine in pool.machines]
    known = [speed for speed in speeds if speed is not None]
    least = write_seconds(runner.image_size / 1024, max(known)) if known and len(known) == len(speeds) else 0
    how = f"at least {memory_text(runner.image_size)} at {max(known)} MiB/s of the root disk (derived); " if least else ""
    return Phase("pull", least, max(least, found.high or 0), f"{how}published pulls: {found.note}", found.sources)
