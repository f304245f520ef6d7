"""How much of several sets' demand their pools take at the same time, as a maximum flow."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise

Amounts = Mapping[str, Fraction]
Pools = Mapping[str, Iterable[str]]
"""The pools of each set."""


def taken(demand: Amounts, room: Amounts, pools: Pools) -> dict[str, Fraction]:
    """What each set gets of the room of its pools, in the unit of `demand` and `room`. The sum is the largest possible.

    The sets are served in the order of `demand`: each gets the most that is possible beside what the earlier sets got. A later
    set may move an earlier one to another of its pools, but takes nothing from it (augmenting paths, shortest first).
    """
    free = dict(room)
    users: dict[str, dict[str, Fraction]] = {pool: {} for pool in room}
    full: set[str] = set()  # no path leads from these pools to free room, also later
    amounts: dict[str, Fraction] = {}
    for name, most in demand.items():
        amounts[name] = Fraction(0)
        while amounts[name] < most:
            path = _path(name, pools, free, users, full)
            if not path:
                break
            moved = [(user, pool) for (_, pool), (user, _) in pairwise(path)]
            amount = min(most - amounts[name], free[path[-1][1]], *(users[pool][user] for user, pool in moved))
            for user, pool in moved:
                users[pool][user] -= amount
            for user, pool in path:
                users[pool][user] = users[pool].get(user, Fraction(0)) + amount
            free[path[-1][1]] -= amount
            amounts[name] += amount
    return amounts


def _path(start: str, pools: Pools, free: Amounts, users: Mapping[str, Amounts], full: set[str]) -> list[tuple[str, str]]:
    """The shortest way to free room: the set `start` enters a pool, a set that leaves it enters the next, and so on."""
    came: dict[str, tuple[str, str]] = {}  # pool: (the set that enters it, the pool that this set leaves)
    queue, visited = deque([(start, "")]), {start}
    while queue:
        name, origin = queue.popleft()
        for pool in pools[name]:
            if pool in came or pool in full:
                continue
            came[pool] = name, origin
            if free[pool] > 0:
                path, entered = [], pool
                while entered:
                    path.append((came[entered][0], entered))
                    entered = came[entered][1]
                return path[::-1]
            leaving = [user for user, amount in users[pool].items() if amount and user not in visited]
            visited.update(leaving)
            queue += [(user, pool) for user in leaving]
    full |= came.keys()
    return []


def most_runners(maxima: Mapping[str, int], nodes: Mapping[str, int], per_node: Mapping[tuple[str, str], int]) -> int:
    """A bound of how many runners of all sets run at the same time: never fewer than really do.

    `maxima` is the maximum of each set, `nodes` that of each pool. `per_node` is how many runners of a set one node of a pool
    holds, by (set, pool), for the pools that the set may use. A runner takes a share of a node, such as one third. The shares in
    a pool are at most its nodes, and no runner counts in two pools.

    The flow needs runners of one size in all pools: the room of a node times the part of it that a set takes. Where one room for
    each pool and one part for each set give `per_node` exactly, the bound is the largest number of such shares. For example, GPUs
    alone limit every set. Otherwise a part is as small as the set has it in any of its pools, so the bound may be too large.
    """
    pools: dict[str, list[str]] = {name: [] for name in maxima}
    for name, pool in per_node:
        pools[name].append(pool)
    bounds = []
    for rooms in (_rooms(per_node), dict.fromkeys(nodes, Fraction(1))):
        rates = {name: max(per_node[name, pool] / rooms[pool] for pool in usable) for name, usable in pools.items() if usable}
        # Sets with more runners per room come first, which makes the number largest.
        demand = {name: maxima[name] / rates[name] for name in sorted(rates, key=lambda name: -rates[name])}
        amounts = taken(demand, {pool: nodes[pool] * size for pool, size in rooms.items()}, pools)
        bounds.append(math.floor(sum(amount * rates[name] for name, amount in amounts.items())))
    return min(bounds)


def _rooms(per_node: Mapping[tuple[str, str], int]) -> dict[str, Fraction]:
    """The room of a node of each pool, such that every set takes the same part in all its pools, as far as that is possible."""
    rooms: dict[str, Fraction] = {}
    rates: dict[str, Fraction] = {}
    open_pairs = dict(per_node)
    while open_pairs:
        near = [key for key in open_pairs if key[0] in rates or key[1] in rooms] or [next(iter(open_pairs))]
        for name, pool in near:
            count = open_pairs.pop((name, pool))
            if name in rates:
                rooms.setdefault(pool, count / rates[name])
            else:
                rates[name] = count / rooms.setdefault(pool, Fraction(1))
    return rooms
