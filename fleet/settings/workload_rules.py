"""Rules between the workloads of a cluster, its pools, caches and queues."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fleet.settings.caches import Cache, class_name
from fleet.settings.model import problem
from fleet.settings.pool import require_no_shm, require_one_share, require_pool
from fleet.settings.workloads import CoralWorkload, NotebookWorkload, PoolWorkload, Workload


def require_workloads(workloads: Mapping[str, Workload], pools: Mapping[str, Any], confined: Collection[str] = ()) -> None:
    """Refuse an unknown pool, several shares, shm under MPS, a namespace of two levels, a node port used twice.

    `confined` are namespaces that have the Pod Security Standard `restricted` because of other users.
    """
    holders: dict[str, str] = {}
    ports: dict[int, str] = {}
    for name, workload in workloads.items():
        _require_pool(name, workload, pools)
        holder = holders.setdefault(workload.namespace, name)
        required = "restricted" if workload.namespace in confined else workloads[holder].level
        if required != workload.level:
            message = (
                f"another user of that namespace requires the Pod Security Standard {required}, {workload.kind} needs "
                f"{workload.level}; give it its own namespace"
            )
            raise problem("workload_level", message, at=("workloads", name, "namespace"), value=workload.namespace)
        if isinstance(workload, NotebookWorkload) and workload.node_port is not None:
            port = workload.node_port.port
            if (first := ports.setdefault(port, name)) != name:
                message = f"workload {first} already uses that port of all nodes; use another"
                raise problem("node_port_twice", message, at=("workloads", name, "nodePort", "port"))


def require_storage(
    workloads: Mapping[str, Workload], caches: Mapping[str, Cache], *, default_class: bool, sells_volumes: bool
) -> None:
    """Refuse a volume whose storage class does not exist: it would stay pending.

    `default_class`: the clusters of the provider have a default class. `sells_volumes`: they can have caches.
    """
    classes = [class_name(cache) for cache in caches]
    add = "add a cache, and name its class: cache-<name>" if sells_volumes else "name one of your own, such as local-path"
    choices = f"name one of: {', '.join(classes)}" if classes else add
    for name, workload in workloads.items():
        if not isinstance(workload, PoolWorkload) or workload.storage_asked is None:
            continue
        class_wanted = workload.storage_asked.storage_class
        # If storage is missing, it is the key to add.
        at = ("workloads", name, "storage", *(("storageClass",) if "storage" in workload.model_fields_set else ()))
        if class_wanted is None and not default_class:
            message = f"the cluster has no default storage class, so its volume would wait forever; {choices}"
            raise problem("workload_class", message, at=at)
        if class_wanted is not None and class_wanted.startswith(class_name("")) and class_wanted not in classes:
            raise problem("workload_class_unknown", f"no cache of the cluster has that class; {choices}", at=at)
        for cache, settings in caches.items():
            if workload.claim(name) == cache and workload.namespace in settings.namespaces:
                message = f"cache {cache} has a claim of that name in namespace {workload.namespace}; rename one"
                raise problem("workload_claim", message, at=("workloads", name), value=name)


def require_unqueued(workloads: Mapping[str, Workload], teams: Mapping[str, str]) -> None:
    """Refuse Jobs in namespaces of `teams` (by namespace): Kueue would keep them in a queue without a quota for them."""
    for name, workload in workloads.items():
        if not workload.stands and workload.namespace in teams:
            message = (
                f"Jobs of that namespace wait in the queue of team {teams[workload.namespace]}, and {workload.kind} is of none; "
                "give it its own namespace"
            )
            raise problem("workload_queued", message, at=("workloads", name, "namespace"), value=workload.namespace)


def _require_pool(name: str, workload: Workload, pools: Mapping[str, Any]) -> None:
    pool = workload.pool if isinstance(workload, PoolWorkload | CoralWorkload) else None
    if pool is None:
        return
    require_pool("workload_pool", pool, pools, at=("workloads", name, "pool"))
    if isinstance(workload, PoolWorkload):
        require_one_share("workload_shares", pool, pools[pool], workload.units, at=("workloads", name, "gpus"))
        require_no_shm("workload_mps_shm", pool, pools[pool], workload, at=("workloads", name))
