"""Replays jobs on pools of nodes: one pass over a heap of events, O(n log n).

The rules are those of GitHub, kube-scheduler and Cluster Autoscaler, as far as costs and waits depend on them. A class takes jobs
up to its maximum, the oldest first. A pod takes the emptiest node that is up (kube-scheduler scores LeastAllocated), in the first
of its pools that has room. Without room it waits, and a node starts for it unless one that already starts has room for it. The
oldest pod takes the first room. A node that is empty for the idle delay goes, down to the pool's least.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

_ENDS, _UP, _FILLS, _ADMITS, _ARRIVES, _GOES = range(6)
"""The events of one moment in their order."""


class Pool(NamedTuple):
    """`room` are the parts of a node. `least` nodes always run. `idle` is the delay in seconds before an empty node goes, `boot`
    the time in seconds until a new one is up.
    """

    room: int
    least: int
    most: int
    idle: float
    boot: float


class Class(NamedTuple):
    """At most `most` jobs at a time. `pools` has the parts of a node that a job takes by the index of the pool, the first choice
    first. `warm` are the seconds until a job starts on a node that is up.
    """

    most: int
    pools: dict[int, int]
    warm: float


class Ask(NamedTuple):
    """A job: seconds since the start, seconds of work, index of its class."""

    at: float
    seconds: float
    of: int


@dataclass(slots=True)
class _Node:
    pool: int
    free: int = 0
    goes: float = -1
    place: int = 0


class Played:
    """What happened to jobs, in the order of their arrival. Each class may have a runner and a node.

    kube-scheduler takes any of several nodes that are as empty. `spread` takes the one that has been so for the longest, after
    which most nodes stay; without it the last one, after which the fewest do.

    `waits`: seconds of each. Of each pool: `hours` of nodes beyond its least, and `launches` of nodes.
    """

    def __init__(self, jobs: Sequence[Ask], classes: Sequence[Class], pools: Sequence[Pool], *, spread: bool) -> None:
        self.waits, self.hours, self.launches = [0.0] * len(jobs), [0.0] * len(pools), [0] * len(pools)
        self._jobs, self._classes, self._pools, self._now, self._number, self._spread = jobs, classes, pools, 0.0, 0, spread
        self._events: list[tuple[float, int, int, Callable[..., None], tuple[object, ...]]] = []
        # Of `coming`, the parts of nodes that start, waiting pods have taken theirs.
        self._count, self._since, self._coming = [pool.least for pool in pools], [0.0] * len(pools), [0] * len(pools)
        # (-free, place among those as empty, node), also outdated ones.
        self._up: list[list[tuple[int, int, _Node]]] = [[] for _ in pools]
        self._beyond, self._active = [deque[int]() for _ in classes], [0] * len(classes)
        # The pods of each class that wait for a node, by their creation, and on how many parts of which pools they count.
        self._waiting, self._planned = [deque[tuple[int, int]]() for _ in classes], [Counter[int]() for _ in classes]
        for at, pool in enumerate(pools):
            for _ in range(pool.least):
                self._show(_Node(at), pool.room)
        # Arrivals are in order already, so the heap has only what follows from them.
        for at, job in enumerate(jobs):
            self._play(job.at)
            self._now = job.at
            self._arrives(at, job.of)
        self._play(inf)

    def _play(self, until: float) -> None:
        """Let everything happen that comes before the arrivals of a moment."""
        while self._events and self._events[0] < (until, _ARRIVES):
            self._now, _, _, happens, about = heappop(self._events)
            happens(*about)

    def _plan(self, at: float, order: int, happens: Callable[..., None], *about: object) -> None:
        self._number += 1
        heappush(self._events, (at, order, self._number, happens, about))

    def _show(self, node: _Node, free: int) -> None:
        """Set how much of a node that is up is free. An empty one goes after the delay."""
        pool = self._pools[node.pool]
        self._number += 1
        node.free, node.goes = free, self._now + pool.idle if free == pool.room else -1
        node.place = self._number if self._spread else -self._number
        heappush(self._up[node.pool], (-free, node.place, node))
        if node.goes >= 0 and self._count[node.pool] > pool.least:
            self._plan(node.goes, _GOES, self._goes, node)

    def _counts(self, pool: int, change: int) -> None:
        self.hours[pool] += (self._count[pool] - self._pools[pool].least) * (self._now - self._since[pool]) / 3600
        self._count[pool], self._since[pool] = self._count[pool] + change, self._now

    def _took(self, job: int, pool: int) -> bool:
        """Start a job in a pool, if a node that is up has room."""
        nodes, ask = self._up[pool], self._jobs[job]
        part = self._classes[ask.of].pools[pool]
        while nodes and nodes[0][1] != nodes[0][2].place:
            heappop(nodes)
        if not nodes or -nodes[0][0] < part:
            return False
        node, start = nodes[0][2], self._now + self._classes[ask.of].warm
        self._show(node, node.free - part)
        self.waits[job] = start - ask.at
        self._plan(start + ask.seconds, _ENDS, self._ends, node, ask.of, part)
        return True

    def _arrives(self, job: int, of: int) -> None:
        if self._active[of] >= self._classes[of].most:
            self._beyond[of].append(job)
            return
        self._active[of] += 1
        if not any(self._took(job, pool) for pool in self._classes[of].pools):
            self._number += 1
            self._waiting[of].append((self._number, job))
            self._provide(of)

    def _provide(self, of: int) -> bool:
        """Let a pod of a class count on a node that starts, or start one; False if there may be none."""
        pools = self._classes[of].pools
        pool = next((pool for pool, part in pools.items() if self._coming[pool] >= part), None)
        pool = next((pool for pool in pools if self._launched(pool)), None) if pool is None else pool
        if pool is not None:
            self._counts_on(of, pool, 1)
        return pool is not None

    def _counts_on(self, of: int, pool: int, pods: int) -> None:
        self._planned[of][pool] += pods
        self._coming[pool] -= pods * self._classes[of].pools[pool]

    def _launched(self, pool: int) -> bool:
        if self._count[pool] >= self._pools[pool].most:
            return False
        self._counts(pool, 1)
        self.launches[pool] += 1
        self._coming[pool] += self._pools[pool].room
        self._plan(self._now + self._pools[pool].boot, _UP, self._comes, _Node(pool))
        return True

    def _fill(self) -> None:
        """Give room to the pods that wait, the oldest first."""
        while waiting := sorted((*pods[0], of) for of, pods in enumerate(self._waiting) if pods):
            ways = ((of, pool) for _, job, of in waiting for pool in self._classes[of].pools if self._took(job, pool))
            if (way := next(ways, None)) is None:
                break
            of, pool = way
            self._waiting[of].popleft()
            planned = self._planned[of]
            if planned[pool] or planned.total() > len(self._waiting[of]):
                self._counts_on(of, pool if planned[pool] else max(planned, key=planned.__getitem__), -1)
        # Pods of one class may have taken the room on which those of another counted, and have given up other room.
        for pool in range(len(self._pools)):
            while self._coming[pool] < 0:
                youngest = max((pods[-1], of) for of, pods in enumerate(self._waiting) if pods and self._planned[of][pool])
                self._counts_on(youngest[1], pool, -1)
        for *_, of in waiting:
            while len(self._waiting[of]) > self._planned[of].total() and self._provide(of):
                pass

    def _ends(self, node: _Node, of: int, part: int) -> None:
        self._show(node, node.free + part)
        self._active[of] -= 1
        if any(self._waiting):
            self._plan(self._now, _FILLS, self._fill)
        if self._beyond[of]:
            self._plan(self._now, _ADMITS, self._arrives, self._beyond[of].popleft(), of)

    def _comes(self, node: _Node) -> None:
        room = self._pools[node.pool].room
        self._coming[node.pool] -= room
        self._show(node, room)
        self._plan(self._now, _FILLS, self._fill)

    def _goes(self, node: _Node) -> None:
        # A job may have come and gone meanwhile.
        if node.goes == self._now and self._count[node.pool] > self._pools[node.pool].least:
            self._counts(node.pool, -1)
            node.place = 0
