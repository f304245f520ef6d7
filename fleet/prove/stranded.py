"""GPUs that a mix of jobs strands: idle GPUs on nodes whose rest cannot hold the next job.

`compare` runs one stream of jobs on a pool that grows and shrinks, once for each way to choose a node: it shows what filling
saves. The same seed gives the same numbers. FGD calls stranded GPUs a fragment (Weng et al., USENIX ATC 2023, section 3.2): what
is free on a node, for each class that the rest cannot hold, by the class's share.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from fleet.facts.record import Record

_WHOLE = 1000


class Job(Record):
    """A class of jobs: millicores, MiB and GPUs of one job, the class's share of all arrivals, and a job's mean seconds.

    `milli` are the thousandths that a job of one GPU uses of it. Shares need not add up to one.
    """

    name: str
    gpus: int
    cpu: int = 0
    memory: int = 0
    share: float = 1
    seconds: float = 3600
    milli: int = _WHOLE


class Node(Record):
    """What a node offers to jobs, in millicores, MiB and GPUs, and its USD an hour."""

    gpus: int
    cpu: int
    memory: int
    usd: float = 0

    def empty(self, kind: int = 0) -> "Rest":
        """All of it."""
        return Rest(self.cpu, self.memory, (_WHOLE,) * self.gpus, kind)


class Rest(NamedTuple):
    """What is free on a node: thousandths of each GPU, the least first. `kind` is the place of the node's kind in a list."""

    cpu: int
    memory: int
    gpus: tuple[int, ...]
    kind: int

    def after(self, job: Job) -> Iterator["Rest"]:
        """What may be free after a job came, the fullest GPU that has room first. Nothing if it has no room."""
        cpu, memory, gpus = self.cpu - job.cpu, self.memory - job.memory, self.gpus
        if cpu < 0 or memory < 0:
            return
        if job.gpus and job.milli < _WHOLE:
            for left in sorted({left for left in gpus if left >= job.milli}):
                others = list(gpus)
                others[others.index(left)] -= job.milli
                yield Rest(cpu, memory, tuple(sorted(others)), self.kind)
        elif gpus.count(_WHOLE) >= job.gpus:
            yield Rest(cpu, memory, (0,) * job.gpus + gpus[: len(gpus) - job.gpus], self.kind)


Policy = Callable[[Rest, Job], tuple[float, Rest] | None]
"""How well a node suits a job, the lowest best, and what is free there afterwards. None if it has no room."""


def by(score: Callable[[Rest, Rest], float]) -> Policy:
    """The policy that prefers the lowest score. A score compares the rest of a node before and after a job."""

    def choose(rest: Rest, job: Job) -> tuple[float, Rest] | None:
        return min(((score(rest, then), then) for then in rest.after(job)), key=itemgetter(0), default=None)

    return choose


def _used(rest: Rest, node: Node) -> list[float]:
    """The used shares of CPU, memory and GPUs."""
    rows = ((rest.cpu, node.cpu), (rest.memory, node.memory), (sum(rest.gpus), node.gpus * _WHOLE))
    return [1 - left / most if most else 0 for left, most in rows]


def spread(_jobs: Sequence[Job], nodes: Sequence[Node]) -> Policy:
    """The default scheduler: `LeastAllocated` of CPU and memory. It does not count GPUs."""
    return by(lambda _, then: sum(_used(then, nodes[then.kind])[:2]))


def fill(_jobs: Sequence[Job], nodes: Sequence[Node]) -> Policy:
    """A scheduler with `MostAllocated` of CPU, memory and GPUs, equal weights."""
    return by(lambda _, then: -sum(_used(then, nodes[then.kind])))


def best_fit(_jobs: Sequence[Job], nodes: Sequence[Node]) -> Policy:
    """The node with the least CPU and GPUs left, each as a share of the largest node."""
    cpu, gpus = max(node.cpu for node in nodes) or 1, max(node.gpus for node in nodes) * _WHOLE or 1
    return by(lambda _, then: then.cpu / cpu + sum(then.gpus) / gpus)


def fgd(jobs: Sequence[Job], _nodes: Sequence[Node]) -> Policy:
    """Fragmentation gradient descent: the node on which the least more is stranded afterwards."""
    stranded = fragment(jobs)
    return by(lambda rest, then: stranded(then) - stranded(rest))


_Make = Callable[[Sequence[Job], Sequence[Node]], Policy]
POLICIES: Mapping[str, _Make] = {"spread": spread, "fill": fill, "best fit": best_fit, "FGD": fgd}
"""What makes each policy of the classes that come and the kinds of nodes."""


def fragment(jobs: Sequence[Job]) -> Callable[[Rest], float]:
    """How many thousandths of GPUs of a node are stranded, on average over the arrivals of these classes with GPUs."""
    with_gpus = [job for job in jobs if job.gpus]
    total = sum(job.share for job in with_gpus)
    rows = [(job.cpu, job.memory, job.gpus, job.milli, job.share / total) for job in with_gpus]
    known: dict[Rest, float] = {}

    def stranded(rest: Rest) -> float:
        if rest not in known:
            free, lost = sum(rest.gpus), 0.0
            for cpu, memory, gpus, milli, share in rows if free else ():
                large = [left for left in rest.gpus if left >= milli]
                fits = cpu <= rest.cpu and memory <= rest.memory and len(large) >= gpus
                lost += share * (free - sum(large) if fits else free)
            known[rest] = lost
        return known[rest]

    return stranded


# -- a stream of jobs --------------------------------------------------------------------------------------------------


class Stranded(Record):
    """What a pool did with a stream of jobs: GPU-hours that were paid for, used, and stranded, and USD.

    `waits` are the mean seconds that a job of each class waited for a node, and `nodes` the most nodes at once.
    """

    paid: float
    useful: float
    stranded: float
    usd: float
    waits: Mapping[str, float]
    nodes: int

    @property
    def usd_per_useful(self) -> float:
        """USD for each hour in which a job had a GPU."""
        return self.usd / self.useful if self.useful else 0


def compare(
    jobs: Sequence[Job], node: Node, most: int, *, least: int = 0, load: float = 0.7, arrivals: int = 1000, seed: int = 0
) -> dict[str, Stranded]:
    """Each policy of POLICIES with the same jobs on a pool of `least` to `most` nodes. Raises ValueError if a class fits no node.

    `load` is the GPU-time of the jobs as a share of that of all nodes. A job runs between half and one and a half times its
    class's seconds. A node starts at once when a job has no room, and goes when it was empty for ten minutes.
    """
    if wrong := [job.name for job in jobs if not [*node.empty().after(job)]]:
        raise ValueError(f"{', '.join(wrong)}: no node of the pool has room; leave out classes that do not fit")
    dice = random.Random(seed)  # noqa: S311 - no secret
    shares = [job.share for job in jobs]
    pace = load * most * node.gpus * sum(shares) / sum(job.share * job.gpus * job.seconds for job in jobs)
    drawn = [
        (job, dice.expovariate(pace), job.seconds * dice.uniform(0.5, 1.5)) for job in dice.choices(jobs, shares, k=arrivals)
    ]
    return {name: _Pool(node, least, most, policy(jobs, [node])).run(drawn, fragment(jobs)) for name, policy in POLICIES.items()}


_IDLE = 600
"""Seconds after which an empty node goes."""


class _Pool:
    """The rest of each node by its number, when each got empty, the jobs that wait, and the events to come."""

    def __init__(self, node: Node, least: int, most: int, choose: Policy) -> None:
        self.node, self.least, self.most, self.choose, self.moment, self.order = node, least, most, choose, 0.0, count()
        self.new = node.empty()
        self.free = {next(self.order): self.new for _ in range(least)}
        self.emptied: dict[int, float] = {}
        self.waiting: list[tuple[Job, float, float]] = []
        self.waits: defaultdict[str, list[float]] = defaultdict(list)
        self.events: list[tuple[float, int, Callable[[], object]]] = []

    def run(self, drawn: Iterable[tuple[Job, float, float]], lost: Callable[[Rest], float]) -> Stranded:
        """Count from the first tenth of the jobs until the last one came."""
        at, times = 0.0, []
        for job, gap, seconds in drawn:
            times.append(at := at + gap)
            self._later(at, partial(self.waiting.append, (job, at, seconds)))
        nodes = useful = stranded = 0.0
        begin, peak = times[len(times) // 10], 0
        while self.events:
            before, (self.moment, _, do) = self.moment, heappop(self.events)
            hours = max(0, min(self.moment, at) - max(before, begin)) / 3600
            nodes += hours * len(self.free)
            useful += hours * sum(self.node.gpus - sum(rest.gpus) / _WHOLE for rest in self.free.values())
            stranded += hours * sum(map(lost, self.free.values())) / _WHOLE
            do()
            self._place()
            peak = max(peak, len(self.free))
        waits = {name: sum(each) / len(each) for name, each in self.waits.items()}
        return Stranded(nodes * self.node.gpus, useful, stranded, nodes * self.node.usd, waits, peak)

    def _later(self, at: float, do: Callable[[], object]) -> None:
        heappush(self.events, (at, next(self.order), do))

    def _place(self) -> None:
        """Place every job that has room. Others pass a job that has none."""
        waiting, full = self.waiting[:], set[Job]()
        self.waiting.clear()
        for job, came, seconds in waiting:
            if (room := None if job in full else self._room(job)) is None:
                full.add(job)
                self.waiting.append((job, came, seconds))
                continue
            _, at, self.free[room[1]] = room
            self.emptied.pop(at, None)
            self.waits[job.name].append(self.moment - came)
            self._later(self.moment + seconds, partial(self._end, at, job))

    def _room(self, job: Job) -> tuple[float, int, Rest] | None:
        """Score and number of the best node, maybe a new one, and what is free there then. None if no node has room.

        The autoscaler taints empty nodes above the minimum with PreferNoSchedule (DeletionCandidateTaint), so they come last.
        """
        free = self.free.items()
        rooms = [(found[0], at, found[1]) for at, rest in free if (found := self.choose(rest, job)) is not None]
        if not rooms and len(free) < self.most and (found := self.choose(self.new, job)) is not None:
            return found[0], next(self.order), found[1]
        return min(rooms, key=lambda room: (room[1] in self.emptied and len(free) > self.least, room[0]), default=None)

    def _end(self, at: int, job: Job) -> None:
        rest = self.free[at]
        gpus = rest.gpus[job.gpus :] + (_WHOLE,) * job.gpus
        self.free[at] = Rest(rest.cpu + job.cpu, rest.memory + job.memory, gpus, rest.kind)
        if self.free[at] == self.new:
            self.emptied[at] = self.moment
            self._later(self.moment + _IDLE, partial(self._leave, at, self.moment))

    def _leave(self, at: int, since: float) -> None:
        if self.emptied.get(at) == since and len(self.free) > self.least:
            del self.free[at], self.emptied[at]
