"""Parts that cannot work on a day, although every setting is right: no node can start, or `pulumi up` would fail half way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from fleet.facts.day import VARIABLE
from fleet.facts.remark import CANNOT_WORK, Remark, kind_of, of_cluster
from fleet.prove import github_server
from fleet.prove.placement import PlacementError
from fleet.prove.room import filled
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster

REFUSED = "cannot work"
"""The first words of each line of `require`."""


def remarks(fleet: Fleet, day: date) -> Iterator[Remark]:
    """Of all clusters, of a server that jobs may not reach, and of classes whose pools all have no capacity on the day."""
    for name, cluster in fleet.clusters_by_name():
        yield from (of_cluster(name, text) for text in (*cluster.remarks, *cluster.remarks_on(day)))
    yield from github_server.remarks(fleet)
    for name, cluster in fleet.clusters_by_name():
        for runner_set, runner in cluster.pod_runners.items():
            if runner.span.max and all(why := [_shut(cluster, pool, day) for pool in runner.ordered]):
                pools = "; ".join(f"pool {pool}: {pool_name}" for pool, pool_name in zip(runner.ordered, why, strict=True))
                parts = tuple(f"{name}/{pool_name}" for pool_name in (runner_set, *runner.ordered))
                yield Remark(
                    f"{name}/{runner_set}: no pool of the class has capacity on {day}, so its jobs wait: {pools}; give the class "
                    "another pool, or change this one",
                    CANNOT_WORK,
                    parts=parts,
                )


def _shut(cluster: Cluster, pool: str, day: date) -> str:
    """Why a pool has no capacity for runners on a day; empty if it has."""
    if why := cluster.pools[pool].closed(day):
        return why
    return "workloads that always run take all of it" if filled(cluster, pool) else ""


def require(fleet: Fleet, day: date) -> None:
    """Raise PlacementError with a line for each thing that cannot work on the day."""
    if wrong := [f"{REFUSED}: {remark}" for remark in remarks(fleet, day) if kind_of(remark) == CANNOT_WORK]:
        raise PlacementError(
            "\n".join((*wrong, f"{VARIABLE}=<YYYY-MM-DD> updates as of another day, such as the start of a reservation"))
        )
