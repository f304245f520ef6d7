"""How much of several sets' demand their pools take at the same time, as a maximum flow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise


def taken(
    demand: Mapping[str, Fraction], room: Mapping[str, Fraction], pools: Mapping[str, Iterable[str]]
) -> dict[str, Fraction]:
    """What each set gets of the room of its pools, in the unit of `demand` and `room`. The sum is the largest possible.

    The sets are served in the order of `demand`: each gets the most that is possible beside what the earlier sets got. A later
    set may move an earlier one to another of its pools, but takes nothing from it (augmenting paths, shortest first).
    """
    free = dict(room)
    users: dict[str, dict[str, Fraction]] = {pool: {} for pool in room}
    full: set[str] = set()  # no path leads from these pools to free room, also later
    got: dict[str, Fraction] = {}
    for name, most in demand.items():
        got[name] = Fraction(0)
        while got[name] < most:
            path = _path(name, pools, free, users, full)
            if not path:
                break
            moved = [(other, pool) for (_, pool), (other, _) in pairwise(path)]
            amount = min(most - got[name], free[path[-1][1]], *(users[pool][other] for other, pool in moved))
            for other, pool in moved:
                users[pool][other] -= amount
            for other, pool in path:
                users[pool][other] = users[pool].get(other, Fraction(0)) + amount
            free[path[-1][1]] -= amount
            got[name] += amount
    return got


def _path(
    start: str,
    pools: Mapping[str, Iterable[str]],
    free: Mapping[str, Fraction],
    users: Mapping[str, Mapping[str, Fraction]],
    full: set[str],
) -> list[tuple[str, str]]:
    """The shortest way to free room: the set `start` enters a pool, a set that leaves it enters the next, and so on."""
    came: dict[str, tuple[str, str]] = {}  # pool: (the set that enters it, the pool that this set leaves)
    queue, asked = deque([(start, "")]), {start}
    while queue:
        name, left = queue.popleft()
        for pool in pools[name]:
            if pool in came or pool in full:
                continue
            came[pool] = name, left
            if free[pool] > 0:
                path, entered = [], pool
                while entered:
                    path.append((came[entered][0], entered))
                    entered = came[entered][1]
                return path[::-1]
            leaving = [other for other, amount in users[pool].items() if amount and other not in asked]
            asked.update(leaving)
            queue += [(other, pool) for other in leaving]
    full |= came.keys()
    return []


def most_runners(wanted: Mapping[str, int], nodes: Mapping[str, int], held: Mapping[tuple[str, str], int]) -> int:
    """A bound of how many runners of all sets run at the same time: never fewer than really do.

    `wanted` is the maximum of each set, `nodes` that of each pool. `held` is how many runners of a set one node of a pool holds,
    by (set, pool), for the pools that the set may use. A runner takes a share of a node, such as one third. The shares in a pool
    are at most its nodes, and no runner counts in two pools.

    The flow needs runners of one size in all pools: the room of a node times the part of it that a set takes. Where one room for
    each pool and one part for each set give `held` exactly, the bound is the largest number of such shares. For example, GPUs
    alone limit every set. Otherwise a part is as small as the set has it in any of its pools, so the bound may be too large.
    """
    pools = {name: [pool for of, pool in held if of == name] for name in wanted}
    return min(_bound(wanted, nodes, held, pools, rooms) for rooms in (_rooms(held), dict.fromkeys(nodes, Fraction(1))))


def _rooms(held: Mapping[tuple[str, str], int]) -> dict[str, Fraction]:
    """The room of a node of each pool, such that every set takes the same part in all its pools, as far as that is possible."""
    rooms: dict[str, Fraction] = {}
    rates: dict[str, Fraction] = {}
    left = dict(held)
    while left:
        near = [key for key in left if key[0] in rates or key[1] in rooms] or [next(iter(left))]
        for name, pool in near:
            count = left.pop((name, pool))
            if name in rates:
                rooms.setdefault(pool, count / rates[name])
            else:
                rates[name] = count / rooms.setdefault(pool, Fraction(1))
    return rooms


def _bound(
    wanted: Mapping[str, int],
    nodes: Mapping[str, int],
    held: Mapping[tuple[str, str], int],
    pools: Mapping[str, list[str]],
    rooms: Mapping[str, Fraction],
) -> int:
    """The bound for these rooms of nodes. Sets with more runners per room come first, which makes the number largest."""
    rates = {name: max(held[name, pool] / rooms[pool] for pool in found) for name, found in pools.items() if found}
    order = sorted(rates, key=lambda name: -rates[name])
    room = {pool: nodes[pool] * size for pool, size in rooms.items()}
    got = taken({name: wanted[name] / rates[name] for name in order}, room, pools)
    return math.floor(sum(amount * rates[name] for name, amount in got.items()))
