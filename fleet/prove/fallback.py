"""What a fleet does when a pool has no machines: the next pool of the order, and sets with the same labels in other clusters."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.prove import same_sets
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS

_NO_AUTOSCALER = (
    "the program configures no autoscaler here, so the order counts only among nodes that exist: the scheduler prefers the first "
    "pool with room"
)


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for each runner class, flavor and job with several pools, and one for each class that several clusters have."""
    for cluster, settings in fleet.clusters_by_name():
        moves = PROVIDERS[settings.provider].moves
        for path, order in settings.pool_orders.items():
            when = moves(cluster, settings, order) if moves is not None else _NO_AUTOSCALER
            yield f"{cluster}/{path.removeprefix('runners.')}: pools in order: {', '.join(order)}; {when}"
    yield from same_sets.remarks(fleet)
