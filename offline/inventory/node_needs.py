"""What nodes must have, beside what they have, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet.jobs.volumes import SHM
from fleet.settings.cluster import Cluster
from offline.gfm import code, table, text
from offline.inventory import cells, clusters
from offline.inventory.needs import Need


@dataclass(frozen=True, slots=True)
class Place:
    """One need of a cluster."""

    cluster: str
    settings: Cluster
    need: Need


def wanted(places: Iterable[Place]) -> str:
    """A row for each pool, and for each node that a user without GPU chooses by its labels."""
    columns = ("nodes", "for", "GPU", "driver", "processor", "CPU", "memory", "disk", SHM, "of the host")
    return table(columns, map(_row, places))


def _row(place: Place) -> tuple[str, ...]:
    need, left = place.need, clusters.room(place.settings, place.need.pool) if place.need.pool else None
    return (
        _where(place),
        cells.codes(need.users),
        _gpu(place),
        "<br>".join(_driver(place)) or cells.NONE,
        cells.codes(need.architectures, " or "),
        cells.cores(need.cpu) + (f" of {cells.cores(left.cpu)}" if left else ""),
        cells.size(need.memory) + (f" of {cells.size(left.memory)}" if left else ""),
        "<br>".join([cells.size(need.scratch) + (f" of {cells.size(left.storage)}" if left else ""), *_claims(need)]),
        cells.size(need.shm) if need.shm else cells.NONE,
        f"**{cells.codes(need.devices)}**" if need.devices else cells.NONE,
    )


def _claims(need: Need) -> Iterator[str]:
    for name, size in need.claims.items():
        yield f"claims of {cells.size(size)}, {cells.storage_class(name)}"


def _where(place: Place) -> str:
    where = code(f"{place.cluster}/{place.need.pool}" if place.need.pool else place.cluster)
    return f"{where}, with {cells.labels(place.need.selector)}" if place.need.selector else where


def _gpu(place: Place) -> str:
    need = place.need
    if not need.units:
        return "none"
    capability = f", compute capability {need.capability} at least" if need.capability else ""
    gpu = place.settings.pools[need.pool].machines[0].gpu
    has = f" (has {gpu.compute_capability})" if gpu and need.capability else ""
    return f"{cells.taken(need.units, need.resource)}{capability}{has}"


def _driver(place: Place) -> Iterator[str]:
    need = place.need
    if not need.units:
        return
    bounds = [f"R{need.driver_from} at least"] * (need.driver_from is not None)
    bounds += [f"R{need.driver_to} at most"] * (need.driver_to is not None)
    yield ", ".join(bounds) or "no bound is known"
    has = clusters.driver(place.settings, need.pool)
    yield text(f"has {has}") if has else "which it has is not known"
