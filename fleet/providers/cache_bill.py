"""Hourly cost of the volumes of a cluster: of caches, of workloads that use their storage classes, and of Prometheus."""

from collections.abc import Iterator

from fleet.facts.pricing import Line, bundle
from fleet.facts.quantities import memory_text
from fleet.settings.caches import Cache, class_name
from fleet.settings.cluster import Cluster
from fleet.settings.workloads import PoolWorkload


def cache_lines(name: str, cluster: Cluster) -> Iterator[Line]:
    """A line per cache with one volume per namespace, then a line per workload with a volume of a cache's class.

    A disk costs its full size from the start. A file system costs what it stores: at least nothing, at worst its nominal size.
    Volumes of other classes are not in the bill, because their price is unknown.
    """
    classes = {class_name(cache): settings for cache, settings in cluster.caches.items()}
    for cache, settings in cluster.caches.items():
        yield _line(name, cluster, f"cache {cache}", settings, settings.size, len(settings.namespaces))
    for workload, wanted in cluster.workloads.items():
        storage = wanted.storage_asked if isinstance(wanted, PoolWorkload) else None
        if storage is not None and (cache_settings := classes.get(storage.storage_class or "")) is not None:
            yield _line(name, cluster, f"workload {workload}", cache_settings, storage.size, 1)
    yield from _prometheus(name, cluster)


def _prometheus(name: str, cluster: Cluster) -> Iterator[Line]:
    """The volume of an installed Prometheus, if the program creates its storage class. The price of another class is unknown."""
    if (monitoring := cluster.monitoring) is not None and cluster.makes_class:
        text, parts = f"Prometheus's volume, {memory_text(monitoring.storage)}", cluster.disk_parts(monitoring.storage // 1024)
        yield bundle(name, "monitoring", text, parts, cluster.region, 1, 1)


def _line(name: str, cluster: Cluster, item: str, cache: Cache, size: int, volumes: int) -> Line:
    text = f"{cache.storage}, {memory_text(size)}{' at worst' if cache.shared else ''}"
    return bundle(name, item, text, cache.parts(size // 1024), cluster.region, 0 if cache.shared else volumes, volumes)
