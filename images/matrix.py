"""Which image of the matrix runs on which GPU pool of a stack: image x driver x pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.facts.versions import RUNNER_GPU
from fleet.prove.image_fit import node_driver, unrunnable
from fleet.providers.fleet import Fleet

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cell:
    """One image on one pool. `error` is why it does not run there, or empty. `driver` is "unknown" if no source names it."""

    pool: str
    gpus: str
    driver: str
    image: str
    error: str

    @property
    def verdict(self) -> str:
        """The result as text. Without a driver's version only the GPU was compared."""
        return self.error or ("runs" if self.driver != _UNKNOWN else "undeterminable: the driver is unknown; the GPU fits")


def cells(fleet: Fleet) -> Iterator[Cell]:
    """Every image on every pool, in the order of the config and of the matrix."""
    for cluster, settings in fleet.clusters_by_name():
        for pool, of_pool in settings.pools.items():
            driver = node_driver(settings, pool)
            gpus = ", ".join(dict.fromkeys(machine.gpu.name for machine in of_pool.machines if machine.gpu))
            for name, row in RUNNER_GPU.items():
                error = unrunnable(row.image, of_pool.machines, driver)
                yield Cell(f"{cluster}/{pool}", gpus, driver or _UNKNOWN, name, error)
