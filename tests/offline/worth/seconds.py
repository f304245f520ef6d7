"""The oracle of the replay: the same rules, second by second. It shares no code with the replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple


@dataclass
class _Machine:
    pool: int
    up_at: int
    free: int
    touched: int = 0
    empty_since: int | None = None


@dataclass
class _Pod:
    job: int
    of: int
    on: _Machine | None = None
    ends: int = 0


class Result(NamedTuple):
    """Seconds that each job waited, and of each pool the seconds of nodes beyond its least and the nodes that started."""

    waits: list[int]
    seconds: list[int]
    launches: list[int]


def step(  # noqa: PLR0912, PLR0915 - one pass over the rules, in their order
    jobs: Sequence[tuple[int, int, int]],
    classes: Sequence[tuple[int, dict[int, int], int]],
    pools: Sequence[tuple[int, int, int, int, int]],
    *,
    spread: bool,
) -> Result:
    """Jobs are (second, seconds of work, class), classes (most, parts by pool, warm), pools (room, least, most, idle, boot)."""
    machines = [_Machine(at, 0, room) for at, (room, least, _, _, _) in enumerate(pools) for _ in range(least)]
    queue: list[list[int]] = [[] for _ in classes]
    pods: list[_Pod] = []
    waits, seconds, launches, touches = [-1] * len(jobs), [0] * len(pools), [0] * len(pools), count(1)
    for second in count():
        for pod in [one for one in pods if one.on is not None and one.ends == second]:
            machine = pod.on
            assert machine is not None
            machine.free += classes[pod.of][1][machine.pool]
            machine.touched = next(touches)
            machine.empty_since = second if machine.free == pools[machine.pool][0] else None
            pods.remove(pod)
        for machine in machines:
            if machine.up_at == second:
                machine.touched, machine.empty_since = next(touches), second
        for of, waiting in enumerate(queue):
            while waiting and sum(pod.of == of for pod in pods) < classes[of][0]:
                pods.append(_Pod(waiting.pop(0), of))
        for job, (at, _, of) in enumerate(jobs):
            if at == second and sum(pod.of == of for pod in pods) < classes[of][0]:
                pods.append(_Pod(job, of))
            elif at == second:
                queue[of].append(job)
        pending = [pod for pod in pods if pod.on is None]
        for pod in pending:
            _, parts, warm = classes[pod.of]
            for pool, part in parts.items():
                able = [one for one in machines if one.pool == pool and one.up_at <= second and one.free >= part]
                if not able:
                    continue
                emptiest = [one for one in able if one.free == max(other.free for other in able)]
                pod.on = (min if spread else max)(emptiest, key=lambda one: one.touched)
                pod.on.free -= part
                pod.on.touched, pod.on.empty_since = next(touches), None
                pod.ends = second + warm + jobs[pod.job][1]
                waits[pod.job] = second + warm - jobs[pod.job][0]
                break
        planned = {id(one): pools[one.pool][0] for one in machines if one.up_at > second}
        for pod in (one for one in pending if one.on is None):
            _, parts, _ = classes[pod.of]
            starting = [one for one in machines if id(one) in planned and planned[id(one)] >= parts.get(one.pool, 10**9)]
            if starting:
                planned[id(starting[0])] -= parts[starting[0].pool]
                continue
            for pool, part in parts.items():
                room, _, most, _, boot = pools[pool]
                if sum(one.pool == pool for one in machines) < most:
                    machine = _Machine(pool, second + boot, room)
                    machines.append(machine)
                    planned[id(machine)] = room - part
                    launches[pool] += 1
                    break
        for machine in [*machines]:
            _, least, _, idle, _ = pools[machine.pool]
            beyond = sum(one.pool == machine.pool for one in machines) > least
            if beyond and machine.empty_since is not None and second - machine.empty_since >= idle:
                machines.remove(machine)
        for at, (_, least, _, _, _) in enumerate(pools):
            seconds[at] += sum(one.pool == at for one in machines) - least
        if not pods and min(waits, default=0) >= 0 and len(machines) == sum(pool[1] for pool in pools):
            return Result(waits, seconds, launches)
    raise AssertionError("unreachable")
