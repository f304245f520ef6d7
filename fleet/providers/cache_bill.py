"""What the caches of a cluster cost an hour, and the volumes of workloads that are of their classes."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.facts.pricing import Line, bundle
from fleet.settings.caches import Cache, class_name
from fleet.settings.cluster import Cluster
from fleet.settings.model import memory_text
from fleet.settings.workloads import PoolWorkload


def cache_lines(name: str, cluster: Cluster) -> Iterator[Line]:
    """A line for each cache, counted in volumes, one a namespace; then one for each workload that has a volume of its class.

    A disk is paid whole from the first day on. A file system is paid by what is in it: nothing at least, its nominal size at
    worst. A volume of another class is of nobody knows what, so it is in no bill.
    """
    classes = {class_name(cache): settings for cache, settings in cluster.caches_by_name()}
    for cache, settings in cluster.caches_by_name():
        yield _line(name, cluster, f"cache {cache}", settings, settings.size, len(settings.namespaces))
    for workload, wanted in cluster.workloads.items():
        storage = wanted.storage_asked if isinstance(wanted, PoolWorkload) else None
        if storage is not None and (found := classes.get(storage.storage_class or "")) is not None:
            yield _line(name, cluster, f"workload {workload}", found, storage.size, 1)


def _line(name: str, cluster: Cluster, item: str, cache: Cache, size: int, volumes: int) -> Line:
    what = f"{cache.storage}, {memory_text(size)}{' at worst' if cache.shared else ''}"
    return bundle(name, item, what, cache.parts(size // 1024), cluster.region, 0 if cache.shared else volumes, volumes)
