"""GPU nodes: GPUs that are missing, nodes that reject pods, spot nodes that leave with a job, pods that do not start."""

from collections.abc import Iterator

from fleet.charts.kube_prometheus import sanitized
from fleet.facts.hardware import SPOT
from fleet.facts.scheduling import QUARANTINE_TAINT, STARTUP_GATE
from fleet.render.monitoring.rules.rule import Rule, alert, by_value, node_matchers, one_of, record, spaces_of
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import PLACEHOLDER_NAMESPACE
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
    spot = one_of(name for name, pool in cluster.pools.items() if pool.capacity == SPOT)
    if spot and cluster.runners:
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
