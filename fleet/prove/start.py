"""How long a job waits for its runner, by phase, and what a shorter start costs.

The figures are public ones (`fleet.facts.starts`), not measurements of your fleet. A phase without a figure makes every sum a
lower bound, and no start with such a phase counts as fast enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import ValidationError

from fleet.facts.disks import write_seconds
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.pricing import Line, Money
from fleet.facts.starts import Phase, done, phase, seconds
from fleet.prove.bill import lines
from fleet.prove.room import standing
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.pool import Pool
from fleet.settings.runner import PodRunner, Runner

NEW, STOPPED, RUNNING, READY, PLACEHOLDER, WAITING = (
    "nothing",
    "a stopped machine of the warm pool",
    "a running machine of the warm pool",
    "a node that is ready",
    "a placeholder",
    "a waiting runner",
)
"""What a job finds when it starts."""
PULLED = "an earlier job on the node has pulled the image"
_BOOTS = {STOPPED: "ec2-stopped", RUNNING: "ec2-running"}
_STATES = {"stopped": STOPPED, "running": RUNNING}


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
    def condition(self) -> str:
        """What must have happened before, for the line that shows the start. Empty if nothing must."""
        return ", after a first job on the node" if any(each.note == PULLED for each in self.phases) else ""

    @property
    def gaps(self) -> tuple[str, ...]:
        """Names of the phases without a figure."""
        return tuple(each.name for each in self.phases if each.high is None)

    def __str__(self) -> str:
        missing = f" plus {' and '.join(self.gaps)} (not measured)" if self.gaps else ""
        return f"{seconds(self.low, self.high)}{missing}"


@dataclass(frozen=True, slots=True)
class Way:
    """Settings by path that give a start, and USD an hour more than now. `refused` is why the settings are not possible."""

    settings: Mapping[str, Any]
    start: Start
    more: Money
    refused: str = ""

    def misses(self, limit: float) -> str:
        """Why the start is not shown to take `limit` seconds at most; empty if it is."""
        if self.refused:
            return f"impossible: {self.refused}"
        if self.start.low > limit:
            longest = max(self.start.phases, key=lambda each: each.low)
            return f"too slow: at least {self.start.low:.0f} s, of which {longest.name} {longest.low:.0f} s"
        if self.start.high > limit:
            return f"too slow: up to {self.start.high:.0f} s"
        return f"cannot be shown: {' and '.join(self.start.gaps)} not measured" if self.start.gaps else ""


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one runner class: cold, and warm by what it has now, or else by a node of an earlier job.

    `finds` is what the first job finds, and `idle` is USD an hour of the pool or machines while no job runs. `ways` are what the
    class has now and what it could have in addition.
    """

    cluster: str
    runner_set: str
    where: str
    finds: str
    idle: Money
    cold: Start
    warm: Start
    ways: tuple[Way, ...]

    def best(self, limit: float) -> Way | None:
        """The cheapest way that is shown to take `limit` seconds at most."""
        return min((way for way in self.ways if not way.misses(limit)), key=_price, default=None)

    def unshown(self, limit: float) -> Way | None:
        """Of the ways that may take `limit` seconds at most, the cheapest of those with the fewest phases without a figure."""
        open_ = (way for way in self.ways if not way.refused and way.start.gaps and way.start.high <= limit)
        return min(open_, key=lambda way: (len(way.start.gaps), _price(way)), default=None)


def _price(way: Way) -> tuple[int, float]:
    return way.more.unknown, way.more.usd


def starts(fleet: Fleet, day: date) -> Iterator[Starts]:
    """The starts of every runner class, at the prices of a day, in the order of the config."""
    for name, cluster in fleet.clusters_by_name():
        bill = tuple(lines(name, cluster, day))
        for set_name, runner in cluster.runners.items():
            yield _starts(name, cluster, set_name, runner, bill, day)


def _starts(name: str, cluster: Cluster, set_name: str, runner: Runner, bill: tuple[Line, ...], day: date) -> Starts:
    pool = _pool(cluster, runner)
    now = _found(cluster, runner)
    first = READY if pool is not None and _fixed(pool) else NEW
    later = READY if pool is not None else WAITING
    where = f"pool {runner.ordered[0]}" if isinstance(runner, PodRunner) else f"machines {set_name}"

    def price(changed: Cluster) -> Money:
        return _more(bill, lines(name, changed, day))

    return Starts(
        name,
        set_name,
        where,
        now,
        sum((line.idle for line in bill if line.item in (where, f"warm {where}")), Money()),
        _start(cluster, runner, first, fresh=True),
        _start(cluster, runner, later if now == NEW else now),
        tuple(_ways(cluster, set_name, runner, now, price)),
    )


def _pool(cluster: Cluster, runner: Runner) -> Pool | None:
    """The pool of a runner class; None if its runners are machines."""
    found: Pool | None = cluster.pools[runner.ordered[0]] if isinstance(runner, PodRunner) else None
    return found


# -- starts ------------------------------------------------------------------------------------------------------------


def _found(cluster: Cluster, runner: Runner) -> str:
    """What the first job of a class finds while no job runs."""
    pool = _pool(cluster, runner)
    if runner.span.min:
        return WAITING
    if pool is None:
        return NEW
    if pool.placeholders:
        return PLACEHOLDER
    if _fixed(pool) or (isinstance(runner, PodRunner) and pool.nodes.min >= _least_nodes(cluster, runner)):
        return READY
    return _STATES.get(cluster.waiting_machines(pool), NEW)


def _fixed(pool: Pool) -> bool:
    """Whether all nodes of a pool always run."""
    return pool.nodes.min == pool.nodes.max


def _least_nodes(cluster: Cluster, runner: PodRunner) -> int:
    """The nodes of which one is free for the runner while no job runs, wherever the pods are that always run in its pool."""
    name = runner.ordered[0]
    pool: Pool = cluster.pools[name]
    waiting = sum(each.span.min * each.gpus for each in cluster.pod_sets(name).values())
    taken = waiting + sum(each.units for _, each in standing(cluster, name))
    # A node is full for the runner if this many of its units are taken.
    full = min(map(pool.units, pool.machines)) - runner.gpus + 1
    return taken // max(full, 1) + 1


def _start(cluster: Cluster, runner: Runner, finds: str, *, fresh: bool = False) -> Start:
    """The start of a job that finds this. On a `fresh` node no job has run, so it pulls the image."""
    return Start(finds, (*_node_phases(cluster, runner, finds), *_runner_phases(cluster, runner, finds, fresh=fresh)))


def _node_phases(cluster: Cluster, runner: Runner, finds: str) -> Iterator[Phase]:
    """Capacity, boot, driver and plugin."""
    pool = _pool(cluster, runner)
    if finds not in (NEW, STOPPED, RUNNING):
        yield done("capacity") if finds == WAITING else phase("capacity", "ready" if finds == READY else "placeholder")
        yield from map(done, ("boot", "driver", "plugin"))
    elif pool is None:
        yield phase("capacity", "launcher")
        yield phase("boot", PROVIDERS[cluster.provider].boots)
        yield phase("driver", "image")
        yield done("plugin", "a machine needs none")
    elif isinstance(runner, PodRunner):
        yield phase("capacity", "autoscaler")
        yield phase("boot", _BOOTS.get(finds, PROVIDERS[cluster.provider].boots))
        yield phase("driver", "image" if NODE_IMAGES[cluster.pools[runner.ordered[0]].image].driver else "operator")
        yield phase("plugin", "device-plugin")


def _runner_phases(cluster: Cluster, runner: Runner, finds: str, *, fresh: bool) -> Iterator[Phase]:
    """Pull and register."""
    pool = _pool(cluster, runner)
    if finds == WAITING:
        yield done("pull")
    elif pool is None:
        yield phase("pull", "machine")
    elif finds == PLACEHOLDER:
        yield done("pull", "the placeholder has pulled the image")
    elif finds == READY and not fresh:
        yield done("pull", PULLED)
    elif isinstance(runner, PodRunner):
        yield _pull(pool, runner)
    yield phase("register", "waiting" if finds == WAITING else "new")


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


# -- ways --------------------------------------------------------------------------------------------------------------


def _ways(cluster: Cluster, set_name: str, runner: Runner, now: str, price: Callable[[Cluster], Money]) -> Iterator[Way]:
    """What the class has now, then each means that it could have in addition. `price` is what a changed cluster costs more."""
    yield Way({}, _start(cluster, runner, now), Money())

    def way(finds: str, settings: dict[str, Any]) -> Way:
        start = _start(cluster, runner, finds)
        try:
            changed = _changed(cluster, settings)
        except ValidationError as error:
            return Way(settings, start, Money(unknown=1), error.errors()[0]["msg"])
        return Way(settings, start, price(changed))

    waiting = {f"runners.{set_name}.scale.min": 1}
    pool = _pool(cluster, runner)
    if pool is None or not isinstance(runner, PodRunner):
        if now != WAITING:
            yield way(WAITING, waiting)
        return
    at = f"pools.{runner.ordered[0]}"
    # A runner that waits takes a node, and the placeholders keep theirs.
    least = _least_nodes(cluster, runner)
    if pool.placeholders:
        least = min(least + pool.placeholders, pool.nodes.max)
    kept = {f"{at}.nodes.min": least} if least > pool.nodes.min and not _fixed(pool) else {}
    if now == NEW and pool.WARMS:
        # With a machine in each zone it does not matter in which one the autoscaler starts the node.
        prepared = min(pool.nodes.min + len(cluster.zones_with_nodes(pool)), pool.nodes.max)
        for state, finds in _STATES.items():
            yield way(finds, {f"{at}.warm": {"maxPrepared": prepared, "state": state}})
    if now in (NEW, STOPPED, RUNNING):
        yield way(READY, kept)
        yield way(PLACEHOLDER, {f"{at}.placeholders": 1})
    if now != WAITING:
        yield way(WAITING, waiting | kept)


def _changed(cluster: Cluster, settings: dict[str, Any]) -> Cluster:
    """The cluster with other settings, by path, of pools and runner classes. Raises ValidationError if their rules refuse one."""
    changes: dict[str, dict[str, Any]] = {"pools": dict(cluster.pools), "runners": dict(cluster.runners)}
    for path, value in settings.items():
        kind, name, *above, last = path.split(".")
        model = changes[kind][name]
        given = held = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for key in above:
            held = held[key]
        held[last] = value
        changes[kind][name] = type(model).model_validate_json(json.dumps(given))
    return cluster.model_copy(update=changes)


def _more(before: Iterable[Line], after: Iterable[Line]) -> Money:
    """What an idle hour costs more after a change."""
    was = {line.item: line.idle for line in before}
    changes = [(was.get(line.item, Money()), line.idle) for line in after]
    parts = (Money(new.usd - old.usd, new.at_most, new.unknown) for old, new in changes if new != old)
    return sum(parts, Money())
