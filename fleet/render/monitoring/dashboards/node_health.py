"""The dashboard of the nodes' health: lost GPUs, XID and ECC errors, throttling, rejected pods, nodes that are not ready."""

from __future__ import annotations

from collections import defaultdict

from fleet.render.monitoring.dashboards.panels import Board, Panel, Query, Variable, renamed
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster

_GPU = '{kubernetes_node=~"$node"}'
_GPU_LEGEND = "{{kubernetes_node}} GPU {{gpu}}"
_FOUND = renamed("group by (kubernetes_node, gpu) (DCGM_FI_DEV_GPU_TEMP)", "node", "kubernetes_node")
_THROTTLED = 'clock_event=~"hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"'


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The temperature limit is that of its alerts."""
    node = Variable(name="node", label="node", query='label_values(kube_node_labels{label_gpu_ci_pool!=""}, node)')
    return Board(
        uid="gpu-ci-nodes", title="node health", panels=(*_nodes(cluster), *_errors(), *_heat(alerts)), variables=(node,)
    )


def _nodes(cluster: Cluster) -> tuple[Panel, ...]:
    node = '{node=~"$node"}'
    rejected = 'kube_pod_status_reason{reason="UnexpectedAdmissionError"}'
    return (
        Panel(
            title="Missing GPUs",
            text="GPUs of the instance type that the DCGM exporter does not report. Above 0, the node has lost a GPU, or its "
            "exporter does not answer.",
            limit=1,
            queries=_missing(cluster),
        ),
        Panel(
            title="GPU units by node",
            text="Units that pods can request. A GPU that is shared counts several times.",
            queries=(("{{node}}", f'sum by (node) (kube_node_status_allocatable{{resource=~"nvidia_com_.+", {node[1:]})'),),
        ),
        Panel(
            title="Nodes that are not ready",
            text="1: the node is not Ready, or its kubelet does not report.",
            span=8,
            limit=1,
            queries=(
                (
                    "{{node}}",
                    f'sum by (node) (kube_node_status_condition{{condition="Ready", status!="true", {node[1:]})',
                ),
            ),
        ),
        Panel(
            title="Nodes without new pods",
            text="1: the node is cordoned.",
            span=8,
            limit=1,
            queries=(("{{node}}", f"sum by (node) (kube_node_spec_unschedulable{node})"),),
        ),
        Panel(
            title="Rejected pods",
            text="Pods that the kubelet of a Ready node rejected (UnexpectedAdmissionError). Many of one node: drain it.",
            span=8,
            limit=1,
            queries=(("{{node}}", f"sum by (node) ({rejected} * on (namespace, pod) group_left (node) kube_pod_info{node})"),),
        ),
    )


def _missing(cluster: Cluster) -> tuple[Query, ...]:
    """A query for each number of GPUs, with the pools that have it. All types of a pool have the same number."""
    pools: defaultdict[int, list[str]] = defaultdict(list)
    for name, pool in cluster.pools.items():
        pools[pool.machines[0].gpus].append(name)
    queries = []
    for gpus, names in pools.items():
        nodes = f'group by (node) (kube_node_labels{{label_gpu_ci_pool=~"{"|".join(names)}", node=~"$node"}})'
        queries.append(("{{node}}", f"{gpus} * {nodes} - on (node) (count by (node) ({_FOUND}) or 0 * {nodes})"))
    return tuple(queries)


def _errors() -> tuple[Panel, ...]:
    return (
        Panel(
            title="XID errors",
            text="Errors of the driver in the last 5 minutes, by code. The code says who is at fault: the job, or the GPU.",
            limit=1,
            queries=(
                (
                    f"{_GPU_LEGEND} XID {{{{xid}}}}",
                    'max by (kubernetes_node, gpu, xid) (DCGM_EXP_XID_ERRORS_COUNT{xid!="", kubernetes_node=~"$node"})',
                ),
            ),
        ),
        Panel(
            title="Failed health checks",
            text="Health checks of DCGM that do not pass, by the part that they watch.",
            limit=1,
            queries=(
                (
                    f"{_GPU_LEGEND} {{{{health_watch}}}}",
                    f"max by (kubernetes_node, gpu, health_watch) (DCGM_EXP_GPU_HEALTH_STATUS{_GPU})",
                ),
            ),
        ),
        Panel(
            title="ECC errors",
            text="Memory errors since the driver was loaded. Double-bit errors are not corrected.",
            queries=(
                _of_gpu("double-bit", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
                _of_gpu("single-bit", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
            ),
        ),
        Panel(
            title="Remapped memory rows",
            text="Rows of memory that the GPU replaced by spare ones. A failed remap means that no spare row was left.",
            queries=(
                _of_gpu("uncorrectable", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
                _of_gpu("correctable", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
                _of_gpu("failed", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
            ),
        ),
    )


def _heat(alerts: Alerts) -> tuple[Panel, ...]:
    return (
        Panel(
            title="Throttling",
            text="How often heat or power slowed the clocks in the last 5 minutes. Idle clocks and the power cap do not count.",
            limit=1,
            queries=(
                (
                    f"{_GPU_LEGEND} {{{{clock_event}}}}",
                    "max by (kubernetes_node, gpu, clock_event) "
                    f'(DCGM_EXP_CLOCK_EVENTS_COUNT{{{_THROTTLED}, kubernetes_node=~"$node"}})',
                ),
            ),
        ),
        Panel(
            title="Temperature by node",
            text="The hottest GPU of each node. The red value is the threshold of the alert.",
            unit="celsius",
            limit=alerts.temperature,
            queries=(("{{kubernetes_node}}", f"max by (kubernetes_node) (DCGM_FI_DEV_GPU_TEMP{_GPU})"),),
        ),
    )


def _of_gpu(what: str, metric: str) -> Query:
    return f"{_GPU_LEGEND} {what}", f"max by (kubernetes_node, gpu) ({metric}{_GPU})"
