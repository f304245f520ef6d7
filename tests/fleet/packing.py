"""Jobs that are placed one after the other for good, as in FGD's simulator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from fleet.prove.stranded import Job, Node, Policy, Rest


def pack(jobs: Iterable[Job], nodes: Sequence[Node], policy: Callable[[Sequence[Node]], Policy]) -> list[int | None]:
    """The place of each job's node in `nodes`, for good; None if no node has room. The policy gets the kinds of nodes.

    Of nodes that suit equally well the first one gets the job, as in FGD's simulator.
    """
    kinds = list(dict.fromkeys(nodes))
    choose, free = policy(kinds), [node.empty(kinds.index(node)) for node in nodes]
    known: defaultdict[Job, dict[Rest, tuple[float, Rest] | None]] = defaultdict(dict)
    placed: list[int | None] = []
    for job in jobs:
        scores, best = known[job], None
        for at, rest in enumerate(free):
            if rest not in scores:
                scores[rest] = choose(rest, job)
            if (found := scores[rest]) is not None and (best is None or found[0] < best[0]):
                best = (*found, at)
        if best is not None:
            free[best[2]] = best[1]
        placed.append(None if best is None else best[2])
    return placed
