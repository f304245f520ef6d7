"""What a fleet does when a pool has no machines: the next pool of the order, and sets with the same labels in other clusters."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.prove import same_sets
from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of


def remarks(fleet: Fleet) -> Iterator[str]:
    """A line for each runner class, flavor and job with several pools, and one for each class that several clusters have."""
    for cluster, settings in fleet.clusters_by_name():
        for path, order in settings.pool_orders.items():
            when = provider_of(settings).moves(cluster, settings, order)
            yield f"{cluster}/{path.removeprefix('runners.')}: pools in order: {', '.join(order)}; {when}"
    yield from same_sets.remarks(fleet)
