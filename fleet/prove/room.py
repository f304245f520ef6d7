"""Whether a pool can hold a workload: its GPUs, its room, and what the workload's image is built for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fleet.facts import hardware
from fleet.facts.versions import Image
from fleet.prove.placement import PlacementError, fit, pool_host, unfit
from fleet.providers.fleet import Fleet
from fleet.settings.cluster import Cluster
from fleet.settings.model import CpuSpan, MemorySpan
from fleet.settings.queues import units
from fleet.settings.workloads import WORKLOAD_IMAGES, PoolWorkload


@dataclass(frozen=True, slots=True)
class Asked:
    """The requests of a workload for placement. `gpus` are units of the pool's resource."""

    gpus: int
    cpu: CpuSpan
    memory: MemorySpan
    scratch: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A workload that its pool cannot hold, and why; or a job of the stack that no pool can hold."""

    cluster: str
    workload: str
    error: str
    kind: str = "workload"


def refusal(cluster: Cluster, workload: PoolWorkload) -> str:
    """Why no node of its pool can run the workload, or nothing. Every instance type of the pool must: any may be bought."""
    host = pool_host(cluster, workload.pool)
    if wrong := _unrunnable(None if workload.image else WORKLOAD_IMAGES[workload.kind], host.machines):
        return wrong
    asked = Asked(workload.units, workload.cpu, workload.memory, workload.scratch)
    return unfit(asked, host, [fit(asked, machine, host) for machine in host.machines])


def _unrunnable(image: Image | None, machines: Iterable[hardware.Machine]) -> str:
    """Why an image does not run on some machine. Of one that is not ours (None) nothing is known."""
    for machine in machines:
        if machine.gpu is None or machine.gpu.vendor != "nvidia":
            return f"runs on NVIDIA's GPUs, {machine.name} has none"
        if image is None:
            continue
        if image.architectures and machine.arch not in image.architectures:
            return f"its image is built for {' and '.join(image.architectures)}, {machine.name} is {machine.arch}; give image one"
        if image.least_capability and _version(machine.gpu.compute_capability) < _version(image.least_capability):
            return (
                f"its image has code for compute capability {image.least_capability} and newer, the {machine.gpu.name} of "
                f"{machine.name} has {machine.gpu.compute_capability}; give image another, or use another pool"
            )
    return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def refusals(fleet: Fleet) -> Iterator[Refusal]:
    """Every workload of a fleet that its pool cannot hold, in the order of the config."""
    for cluster, settings in fleet.clusters_by_name():
        for name, workload in settings.workloads.items():
            if isinstance(workload, PoolWorkload) and (error := refusal(settings, workload)):
                yield Refusal(cluster, name, error)


def require(fleet: Fleet) -> None:
    """Raise PlacementError when a workload cannot be placed, with a line for each."""
    if errors := [f"{found.cluster}.workloads.{found.workload}: {found.error}" for found in refusals(fleet)]:
        raise PlacementError("\n".join(errors))


def remarks(fleet: Fleet) -> Iterator[str]:
    """Warnings: nodes that never scale down, and pools that running workloads fill."""
    for cluster, settings in fleet.clusters_by_name():
        standing: dict[str, list[tuple[str, PoolWorkload]]] = {}
        for name, workload in settings.workloads.items():
            if isinstance(workload, PoolWorkload) and workload.stands and not refusal(settings, workload):
                standing.setdefault(workload.pool, []).append((name, workload))
        for pool, held in standing.items():
            yield from _stand(settings, cluster, pool, held)


def _stand(settings: Cluster, cluster: str, pool: str, held: list[tuple[str, PoolWorkload]]) -> Iterator[str]:
    host, nodes = pool_host(settings, pool), settings.pools[pool].nodes
    names = " and ".join(name for name, _ in held)
    if nodes.min == 0:
        yield (
            f"{cluster}/{pool}: {names} {'keeps' if len(held) == 1 else 'keep'} a node of it at all times, so it costs that when "
            "idle, though the price here is that of nodes.min, 0; raise nodes.min where the price shall say so"
        )
    offered = units(settings.pools[pool])
    if (taken := sum(workload.units for _, workload in held)) >= offered:
        yield (
            f"{cluster}/{pool}: {names} {'takes' if len(held) == 1 else 'take'} {taken} of the {offered} {host.counted} that the "
            "full pool has, at all times: nothing is left for jobs; raise nodes.max"
        )
