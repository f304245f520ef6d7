"""GPU nodes and their GPUs.

Missing GPUs, nodes that reject pods, spot nodes that leave with a job, pods that do not start. Utilization, memory, idle GPUs,
ECC errors, row remaps, temperature, throttling, and Xid errors by NVIDIA's table.

Every series of use has `kubernetes_node`, `gpu` and `pool`. `exported_namespace` and `exported_pod` name the pod that holds the
GPU, and are empty on a free GPU.
"""

from collections.abc import Iterator

from fleet.charts.kube_prometheus import sanitized
from fleet.facts.hardware import SPOT
from fleet.facts.scheduling import QUARANTINE_TAINT, STARTUP_GATE
from fleet.facts.xid import APPLICATION, FATAL, UNCLEAR, XIDS
from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import Rule, alert, by_value, node_matchers, one_of, record, spaces_of
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE, runner_namespace
from fleet.settings.pool import Pool


def node_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of GPU nodes; none for a cluster without pools."""
    if not cluster.pools:
        return
    for name, pool in cluster.pools.items():
        yield record("gpu_ci:node_pool", labels={"pool": name}, selector=", ".join(node_matchers(name, pool)))
    pools: dict[str, Pool] = cluster.gpu_pools
    yield record("gpu_ci:node_gpus")
    for count, names in by_value({name: pool.machines[0].gpus for name, pool in pools.items()}).items():
        yield _missing(f'gpu_ci:node_gpus{{pool=~"{names}"}}', "exporter", count)
    for resource in sorted({pool.resource for pool in pools.values()}):
        units = {name: pool.units(pool.machines[0]) for name, pool in pools.items() if pool.resource == resource}
        for count, names in by_value(units).items():
            nodes = f'gpu_ci:node_pool{{pool=~"{names}"}}'
            series = f'max by (node) (kube_node_status_allocatable{{resource="{sanitized(resource)}"}})'
            units_of_node = f'label_replace({series}, "kubernetes_node", "$1", "node", "(.+)")'
            available = f"({nodes} * on (kubernetes_node) group_left () {units_of_node} or 0 * {nodes})"
            yield _missing(available, "kubelet", count, resource)
    yield alert("GpuCiNodeRejectsPods", pods=alerts.rejected_pods)
    if cluster.health is not None:
        taints = (QUARANTINE_TAINT.key, STARTUP_GATE.key)
        yield alert("GpuCiNodeQuarantined", keys=one_of(key.rpartition("/")[2] for key in taints))
    if (spot := one_of(name for name, pool in cluster.pools.items() if pool.capacity == SPOT)) and cluster.runners:
        spaces = one_of(space for row in cluster.runners.items() for space in spaces_of(*row))
        yield alert("GpuCiSpotNodeLost", pools=spot, spaces=spaces)


def _missing(available: str, signal: str, count: int, resource: str = "GPUs") -> Rule:
    labels = {"signal": signal, "expected": f"{count} {resource}"}
    return alert("GpuCiGpuMissing", labels=labels, available=available, count=count)


def pod_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """Pods that request a GPU and do not start, by reason; none for a cluster without pools.

    kube-state-metrics does not say why a pod is unschedulable: the reason is only in the pod's events.
    """
    if not cluster.pools:
        return
    # A placeholder waits whenever its pool has all the nodes that it may have.
    unschedulable = f'kube_pod_status_unschedulable{{namespace!="{PLACEHOLDER_NAMESPACE}"}}'
    # A template knows the labels of the query, not those of the rule.
    reason = "Unschedulable"
    yield alert("GpuCiPodsPending", alerts.pending_for, {"reason": reason}, by="namespace", pods=unschedulable, why=reason)
    waiting = "kube_pod_container_status_waiting_reason"
    yield alert("GpuCiPodsPending", alerts.pending_for, by="namespace, reason", pods=waiting, why="{{ $labels.reason }}")


# -- GPUs ---------------------------------------------------------------------------------------------------------------


def use_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of how GPUs are used; none for a cluster without pools."""
    if not cluster.gpu_pools:
        return
    yield from map(record, ("gpu_ci:gpu_utilization", "gpu_ci:gpu_memory_used_ratio", "gpu_ci:gpu_allocated"))
    seconds, busy = alerts.idle_for, _expected_idle(cluster)
    taken = ", ".join(('exported_pod!=""', *busy))
    share = f"{alerts.idle_below:.0%}"
    yield alert("GpuCiGpuIdle", matchers=taken, seconds=seconds, below=f"{alerts.idle_below:g}", share=share)
    yield alert("GpuCiGpuMemoryHeld", matchers=", ".join(busy), seconds=seconds, floor=alerts.memory_floor)


def _expected_idle(cluster: Cluster) -> list[str]:
    """Matchers that leave out what may hold an idle GPU: waiting runners, placeholders, and workloads that keep running."""
    spaces = [runner_namespace(name) for name, runner in cluster.runners.items() if runner.span.min]
    spaces += [PLACEHOLDER_NAMESPACE] * cluster.has_placeholders
    standing = [name for name, workload in cluster.workloads.items() if workload.stands]
    patterns = {"exported_namespace": one_of(spaces), "exported_pod": f"({one_of(standing)})-.+" if standing else ""}
    return [f'{label}!~"{pattern}"' for label, pattern in patterns.items() if pattern]


def fault_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of faulty GPUs; none for a cluster without metrics of GPUs."""
    if cluster.gpu_pools or provider_of(cluster).gateway(cluster):
        yield from map(alert, ("GpuCiEccUncorrectable", "GpuCiRowsRemapped", "GpuCiRowRemapFailed"))
        yield alert("GpuCiGpuHot", limit=alerts.temperature)
        yield alert("GpuCiGpuThrottled")


def xid_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """NVIDIA's table of Xid errors as series, and alerts that join it, so each has the meaning of its code.

    There are none for a cluster without metrics of GPUs.
    DCGM_FI_DEV_XID_ERRORS is not used: it keeps the last code until the exporter restarts, and each code is a series of its own.
    DCGM_EXP_XID_ERRORS_COUNT counts the last five minutes, so it clears. It is a count over a window and takes no rate().
    """
    if not (cluster.gpu_pools or provider_of(cluster).gateway(cluster)):
        return
    for xid in XIDS.values():
        labels = {"xid": xid.code, "meaning": xid.meaning, "category": xid.category}
        yield record("gpu_ci:xid_info", labels=labels | ({"action": xid.action} if xid.action else {}))
    for name, categories in (("Fatal", FATAL), ("Application", APPLICATION), ("Unclear", UNCLEAR)):
        yield alert(f"GpuCiXid{name}", categories=one_of(categories))
    yield alert("GpuCiXidUnknown")
