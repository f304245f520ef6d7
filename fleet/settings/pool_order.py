"""One order of a cluster's pools that keeps every order in the settings, because an autoscaler has only one."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from fleet.facts.groups import grouped


class ContradictionError(ValueError):
    """Orders that contradict each other. `steps` are the rows (path of the order, pool, next pool) of the circle."""

    def __init__(self, steps: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(", ".join(f"{name} puts {pool} before {after}" for name, pool, after in steps))
        self.steps = tuple(steps)


def pool_ranks(orders: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The rank of each pool that an order names: a pool has a higher rank than every pool after it. The last have rank 1.

    `orders` are lists of pools, the first choice first, by their paths. Pools of one rank are in no common order. Raises
    ContradictionError.
    """
    after = grouped((pool, following) for _, pool, following in _steps(orders))
    try:
        sorted_pools = tuple(TopologicalSorter(after).static_order())
    except CycleError as error:
        # The circle ends with the pool that it starts with. Each pool must come after the next one in it.
        circle = list(reversed(error.args[1]))
        paths = {(pool, following): name for name, pool, following in reversed(tuple(_steps(orders)))}
        raise ContradictionError([(paths[step], *step) for step in pairwise(circle)]) from error
    ranks: dict[str, int] = {}
    for pool in sorted_pools:
        ranks[pool] = 1 + max((ranks[follower] for follower in after.get(pool, ())), default=0)
    return ranks


def _steps(orders: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    for name, pools in orders.items():
        yield from ((name, pool, following) for pool, following in pairwise(pools))
