"""What a placeholder pod requests: all GPUs of a node, so that it shares the node with no runner and no other placeholder."""

from __future__ import annotations

from fleet.prove import topology
from fleet.prove.placement import fit, pool_host
from fleet.prove.pod import PodAsk, Request
from fleet.settings.cluster import Cluster


def placeholder(cluster: Cluster, name: str) -> PodAsk:
    """The requests of a pool's placeholder: what the runners of its first set request that a node holds, and all GPUs."""
    pool, host = cluster.pools[name], pool_host(cluster, name)
    first = next(iter(cluster.pod_sets(name).values()))
    count = max(1, min(fit(first, machine, host).count for machine in host.machines))
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
