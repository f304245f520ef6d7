"""How to ask a cloud whether it has machines now. No offline source says that."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.fleet import Fleet
from fleet.providers.registry import provider_of


def remarks(fleet: Fleet) -> Iterator[str]:
    """Lines with the command that asks, for the clusters whose cloud has one."""
    for name, cluster in fleet.clusters_by_name():
        yield from provider_of(cluster).capacity_remarks(name, cluster)
