"""How many runners of several sets run at the same time in pools that the sets share.

Every runner takes a share of one node: one third if a node holds three of its class. The sum of the shares in a pool is at most
its number of nodes, and no runner counts in two pools. The largest number of runners under these conditions is a linear program.
Its exact optimum is a bound: real nodes may hold fewer runners if classes of different sizes meet on one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction


def most_runners(wanted: Mapping[str, int], nodes: Mapping[str, int], held: Mapping[tuple[str, str], int]) -> int:
    """The most runners at the same time. `wanted` is the maximum of each set, `nodes` that of each pool.

    `held` is how many runners of a set one node of a pool holds, by (set, pool), for the pools that the set may use.
    """
    variables = tuple(held)
    rows = [
        *(({key: Fraction(1) for key in variables if key[0] == each}, Fraction(most)) for each, most in wanted.items()),
        *(({key: Fraction(1, held[key]) for key in variables if key[1] == each}, Fraction(most)) for each, most in nodes.items()),
    ]
    return math.floor(_largest(variables, rows))


def _largest(
    variables: Sequence[tuple[str, str]], rows: Sequence[tuple[Mapping[tuple[str, str], Fraction], Fraction]]
) -> Fraction:
    """The largest sum of variables that are not negative, under rows (factors, bound) of the form `factors · variables <= bound`.

    The simplex method with Bland's rule, in exact fractions. All bounds are 0 or more, so all variables can start at 0. A row has
    only its factors other than 0, because most are 0: a set uses few pools.
    """
    column = {key: index for index, key in enumerate(variables)}
    width = len(variables)
    table = [
        {column[key]: factor for key, factor in factors.items()} | {width + row: Fraction(1)}
        for row, (factors, _) in enumerate(rows)
    ]
    bounds = [bound for _, bound in rows]
    gain, total = dict.fromkeys(range(width), Fraction(-1)), Fraction(0)
    basis = list(range(width, width + len(rows)))
    while (enters := min((each for each, value in gain.items() if value < 0), default=None)) is not None:
        leaves = min(
            (row for row, factors in enumerate(table) if factors.get(enters, 0) > 0),
            key=lambda row: (bounds[row] / table[row][enters], basis[row]),
        )
        pivot = table[leaves][enters]
        chosen = table[leaves] = {each: value / pivot for each, value in table[leaves].items()}
        bounds[leaves] /= pivot
        basis[leaves] = enters
        for row, factors in enumerate(table):
            if row != leaves and (factor := factors.get(enters)):
                _subtract(factors, factor, chosen)
                bounds[row] -= factor * bounds[leaves]
        factor = gain[enters]
        _subtract(gain, factor, chosen)
        total -= factor * bounds[leaves]
    return total


def _subtract(row: dict[int, Fraction], factor: Fraction, other: Mapping[int, Fraction]) -> None:
    """Subtract a multiple of another row. Zeros are left out."""
    for each, value in other.items():
        if left := row.get(each, Fraction(0)) - factor * value:
            row[each] = left
        else:
            row.pop(each, None)
