"""How many runners of several sets run at the same time in pools that the sets share.

Every runner takes a share of one node: one third if a node holds three of its class. The sum of the shares in a pool is at most
its number of nodes, and no runner counts in two pools. The largest number of runners under these conditions is a linear program.
Its exact optimum is a bound: real nodes may hold fewer runners if classes of different sizes meet on one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction


def most_runners(wanted: Mapping[str, int], nodes: Mapping[str, int], held: Mapping[tuple[str, str], int]) -> int:
    """The most runners at the same time. `wanted` is the maximum of each set, `nodes` that of each pool.

    `held` is how many runners of a set one node of a pool holds, by (set, pool), for the pools that the set may use.
    """
    rows = [
        *([Fraction(name == each) for name, _ in held] + [Fraction(most)] for each, most in wanted.items()),
        *(
            [Fraction(pool == each, count) for (_, pool), count in held.items()] + [Fraction(most)]
            for each, most in nodes.items()
        ),
    ]
    return math.floor(_largest(rows))


def _largest(rows: list[list[Fraction]]) -> Fraction:
    """The largest sum of variables that are not negative, under rows of the form `factors · variables <= last`.

    The simplex method with Bland's rule, in exact fractions. All bounds are 0 or more, so all variables can start at 0.
    """
    count, width = len(rows), len(rows[0]) - 1
    table = [[*row[:-1], *(Fraction(index == each) for each in range(count)), row[-1]] for index, row in enumerate(rows)]
    gain = [Fraction(-1)] * width + [Fraction(0)] * (count + 1)
    basis = list(range(width, width + count))
    while (enters := next((column for column in range(width + count) if gain[column] < 0), None)) is not None:
        bounding = [index for index in range(count) if table[index][enters] > 0]
        leaves = min(bounding, key=lambda index: (table[index][-1] / table[index][enters], basis[index]))
        pivot = table[leaves][enters]
        table[leaves] = [value / pivot for value in table[leaves]]
        basis[leaves] = enters
        for row in (gain, *(table[index] for index in range(count) if index != leaves)):
            if factor := row[enters]:
                row[:] = [value - factor * other for value, other in zip(row, table[leaves], strict=True)]
    return gain[-1]
