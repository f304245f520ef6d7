"""How much of several sets' demand their pools take at the same time, as a maximum flow."""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from fleet.facts.groups import grouped

Amounts = Mapping[str, Fraction]
Pools = Mapping[str, Iterable[str]]
"""The pools of each set."""


def taken(demand: Amounts, room: Amounts, pools: Pools) -> dict[str, Fraction]:
    """What each set gets of the room of its pools, in the unit of `demand` and `room`. The sum is the largest possible.

    The sets are served in the order of `demand`: each gets the most that is possible beside what the earlier sets got. A later
    set may move an earlier one to another of its pools, but takes nothing from it (augmenting paths).
    """
    free = dict(room)
    users: dict[str, dict[str, Fraction]] = {pool: {} for pool in room}
    full: set[str] = set()  # nothing leads from these pools to free room, also later

    def enter(name: str, most: Fraction, visited: set[str]) -> Fraction:
        """What the set gets in one pool, of which another set may leave as much for its own other pools."""
        for pool in pools[name]:
            if pool in visited:
                continue
            visited.add(pool)
            amount = min(most, free[pool])
            free[pool] -= amount
            for user, held in () if amount else [*users[pool].items()]:
                if held and (amount := enter(user, min(most, held), visited)):
                    users[pool][user] -= amount
                    break
            if amount:
                users[pool][name] = users[pool].get(name, Fraction(0)) + amount
                return amount
        return Fraction(0)

    amounts = dict.fromkeys(demand, Fraction(0))
    for name, most in demand.items():
        while amounts[name] < most:
            visited = set(full)
            if not (amount := enter(name, most - amounts[name], visited)):
                full = visited
                break
            amounts[name] += amount
    return amounts


def most_runners(maxima: Mapping[str, int], nodes: Mapping[str, int], per_node: Mapping[tuple[str, str], int]) -> int:
    """A bound of how many runners of all sets run at the same time: never fewer than really do.

    `maxima` is the maximum of each set, `nodes` that of each pool. `per_node` is how many runners of a set one node of a pool
    holds, by (set, pool), for the pools that the set may use. A runner takes a share of a node, such as one third. The shares in
    a pool are at most its nodes, and no runner counts in two pools.

    The flow needs runners of one size in all pools: the room of a node times the part of it that a set takes. Where one room for
    each pool and one part for each set give `per_node` exactly, the bound is the largest number of such shares. For example, GPUs
    alone limit every set. Otherwise a part is as small as the set has it in any of its pools, so the bound may be too large.
    """
    pools = grouped(per_node)
    bounds = []
    for rooms in (_rooms(per_node), dict.fromkeys(nodes, Fraction(1))):
        rates = {name: max(per_node[name, pool] / rooms[pool] for pool in usable) for name, usable in pools.items()}
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
