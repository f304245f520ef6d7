"""Whether a pool can run a workload: its GPUs, the free resources of a node, and the hardware that the image is built for."""

from collections.abc import Iterator
from typing import Literal

from fleet.facts.record import Record
from fleet.facts.remark import todo
from fleet.prove import topology
from fleet.prove.image_fit import node_driver, pinned_image, unbuilt, unrunnable
from fleet.prove.placement import doubts, fit, per_node, pool_host, unfit
from fleet.prove.pod import PodAsk, Request
from fleet.prove.runner_pods import runner_ask
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.queues import units
from fleet.settings.workloads import PoolWorkload


class Refusal(Record):
    """A runner set or a workload that its pool cannot hold, or a job of the stack that no pool can hold, and the reason."""

    cluster: str
    workload: str
    error: str
    kind: Literal["runner set", "workload", "job"]


def refusal(cluster: Cluster, workload: PoolWorkload) -> str:
    """Why the pool cannot run the workload, or an empty string.

    Every instance type of the pool must fit, because the autoscaler may buy any of them.
    """
    host, ask = pool_host(cluster, workload.pool), _asked(workload)
    image = None if workload.image else pinned_image(cluster, workload)
    driver = node_driver(cluster, workload.pool)
    if wrong := unrunnable(image, host.machines, driver) if workload.units else unbuilt(image, host.machines):
        return wrong
    return unfit(ask, host, [fit(ask, machine, host) for machine in host.machines])


def fits(cluster: Cluster, workload: PoolWorkload) -> int:
    """How many such workloads each node of the pool holds at least."""
    return per_node(_asked(workload), (pool_host(cluster, workload.pool),))


def _asked(workload: PoolWorkload) -> PodAsk:
    return PodAsk(workload.units, workload.cpu, workload.memory, workload.scratch)


def refusals(fleet: Fleet) -> Iterator[Refusal]:
    """Every workload of a fleet that its pool cannot hold, in the order of the config."""
    for cluster, settings in fleet.clusters_by_name():
        for name, workload in settings.workloads.items():
            if isinstance(workload, PoolWorkload) and (error := refusal(settings, workload)):
                yield Refusal(cluster, name, error, "workload")


def remarks(fleet: Fleet) -> Iterator[str]:
    """Warnings: NUMA nodes that are not known, and pools that running workloads fill."""
    for cluster, settings in fleet.clusters_by_name():
        for name, workload in settings.workloads.items():
            if isinstance(workload, PoolWorkload) and not refusal(settings, workload):
                host, ask = pool_host(settings, workload.pool), _asked(workload)
                fits = [fit(ask, machine, host) for machine in host.machines]
                yield from (f"{cluster}/{name}: {doubt}" for doubt in doubts(ask, host, fits))
        for pool in dict.fromkeys(row.pool for row in settings.workloads.values() if isinstance(row, PoolWorkload)):
            if (workloads := standing(settings, pool)) and filled(settings, pool):
                used, offered = sum(row.units for _, row in workloads), units(settings.pools[pool])
                who = f"{' and '.join(name for name, _ in workloads)} always {'takes' if len(workloads) == 1 else 'take'}"
                full = f"{offered} {pool_host(settings, pool).counted} of the full pool"
                yield todo(f"{cluster}/{pool}: {who} {used} of the {full}, so nothing is left for jobs; raise nodes.max")


def standing(settings: Cluster, pool: str) -> list[tuple[str, PoolWorkload]]:
    """The workloads, by name, that always run in a pool and that it can hold."""
    return [
        (name, workload)
        for name, workload in settings.workloads.items()
        if isinstance(workload, PoolWorkload) and workload.pool == pool and workload.stands and not refusal(settings, workload)
    ]


def filled(settings: Cluster, pool: str) -> bool:
    """Whether the workloads that always run take the whole pool, so that nothing is left for jobs."""
    taken = sum(workload.units for _, workload in standing(settings, pool))
    return settings.pools[pool].has_gpus and taken >= units(settings.pools[pool])


def placeholder(cluster: Cluster, name: str) -> PodAsk:
    """The requests of a pool's placeholder: what the runners of its first set request that a node holds, and all GPUs."""
    pool, host = cluster.pools[name], pool_host(cluster, name)
    first = runner_ask(next(iter(cluster.pod_sets(name).values())))
    count = per_node(first, (host,))
    cpu, memory = first.cpu.request * count, first.memory.request * count
    return PodAsk(min(map(pool.units, pool.machines)), Request(cpu, cpu), Request(memory, memory), first.scratch * count)


def rejected(cluster: Cluster, name: str) -> str:
    """Why kubelet would reject the placeholders of a pool on an empty node, or an empty string."""
    host = pool_host(cluster, name)
    if not topology.strict(host.managers):
        return ""
    ask = placeholder(cluster, name)
    reasons = (topology.rejection(ask, machine, host.units(machine), host.managers) for machine in host.machines)
    return next(filter(None, reasons), "")
