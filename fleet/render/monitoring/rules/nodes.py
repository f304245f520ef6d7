"""GPU nodes: GPUs that are missing, nodes that reject pods, spot nodes that leave with a job."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.charts.kube_state_metrics import sanitized
from fleet.facts.hardware import SPOT
from fleet.facts.scheduling import QUARANTINE_TAINT, STARTUP_GATE
from fleet.render.monitoring.rules.rule import Rule, alert, by_value, node_label, node_matchers, one_of, record
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace
from fleet.settings.pool import Pool

_POOL = "gpu_ci:node_pool"
_WINDOW = "15m"


def node_rules(cluster: Cluster, alerts: Alerts) -> Iterator[Rule]:
    """The rules of GPU nodes; none for a cluster without pools."""
    if not cluster.pools:
        return
    pools: dict[str, Pool] = dict(cluster.pools)
    for name, pool in pools.items():
        selector = ", ".join(node_matchers(name, pool))
        yield record(_POOL, f"max by (kubernetes_node) ({node_label(f'kube_node_labels{{{selector}}}')})", pool=name)
    # A GPU that is gone has no series, so a node without any counts as 0.
    reported = "count by (kubernetes_node) (count by (kubernetes_node, gpu) (DCGM_FI_DEV_GPU_TEMP))"
    yield record("gpu_ci:node_gpus", f"{_POOL} * on (kubernetes_node) group_left () {reported} or 0 * {_POOL}")
    for count, names in by_value({name: pool.machines[0].gpus for name, pool in pools.items()}).items():
        yield _missing(f'gpu_ci:node_gpus{{pool=~"{names}"}} < {count}', "exporter", count)
    for resource in sorted({pool.resource for pool in pools.values()}):
        units = {name: pool.units(pool.machines[0]) for name, pool in pools.items() if pool.resource == resource}
        for count, names in by_value(units).items():
            nodes = f'{_POOL}{{pool=~"{names}"}}'
            series = f'max by (node) (kube_node_status_allocatable{{resource="{sanitized(resource)}"}})'
            expr = f"({nodes} * on (kubernetes_node) group_left () {node_label(series)} or 0 * {nodes}) < {count}"
            yield _missing(expr, "kubelet", count, resource)
    rejected = f'max_over_time(kube_pod_status_reason{{reason="UnexpectedAdmissionError"}}[{_WINDOW}]) == 1'
    placed = f'max by (namespace, pod, node) (max_over_time(kube_pod_info{{node!=""}}[{_WINDOW}]))'
    yield alert(
        "GpuCiNodeRejectsPods",
        f"count by (node) (({rejected}) * on (namespace, pod) group_left (node) {placed}) > {alerts.rejected_pods} "
        'and on (node) kube_node_status_condition{condition="Ready", status="true"} == 1',
        text={"pods": alerts.rejected_pods},
    )
    if cluster.health is not None:
        keys = one_of(taint.key.rpartition("/")[2] for taint in (QUARANTINE_TAINT, STARTUP_GATE))
        yield alert("GpuCiNodeQuarantined", f'max by (node, key, value) (kube_node_spec_taint{{key=~".+/({keys})"}}) == 1')
    yield from _spot(cluster)


def _missing(expr: str, signal: str, count: int, resource: str = "GPUs") -> Rule:
    return alert("GpuCiGpuMissing", expr, signal=signal, expected=f"{count} {resource}")


def _spot(cluster: Cluster) -> Iterator[Rule]:
    """Spot nodes that leave while they run a job.

    Managed node groups and OKE publish no metric of interruptions. The autoscaler removes only empty nodes, so a spot node
    that is cordoned or gone and had a running runner a minute ago was interrupted, or a person removed it. Every `idleDelay` is
    longer.
    """
    spot = [name for name, pool in cluster.pools.items() if pool.capacity == SPOT]
    if not (spot and cluster.runners):
        return
    at = f'{{namespace=~"{one_of(map(runner_namespace, cluster.runners))}"}} offset 1m'
    running = 'kube_pod_status_phase{phase="Running"} offset 1m == 1'
    runners = node_label(f"kube_pod_info{at} and on (namespace, pod) {running}")
    nodes = f'{_POOL}{{pool=~"{one_of(spot)}"}} offset 1m'
    cordoned = f"{nodes} and on (kubernetes_node) {node_label('kube_node_spec_unschedulable')} == 1"
    yield alert(
        "GpuCiSpotNodeLost",
        f"count by (pool) (({nodes} unless on (kubernetes_node) {_POOL} or {cordoned}) and on (kubernetes_node) {runners})",
    )
