"""The dashboard of the nodes' health: lost GPUs, XID and ECC errors, throttling, rejected pods, nodes that are not ready."""

from __future__ import annotations

from fleet.providers.registry import provider_of
from fleet.render.monitoring.dashboards.panels import Board, Panel, Variable
from fleet.render.monitoring.rules.rule import by_value
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool

_GPU = "{{kubernetes_node}} GPU {{gpu}} "


def _of_node(metric: str, *matching: str) -> dict[str, str]:
    matchers = ", ".join((*matching, 'node=~"$node"'))
    return {"{{node}}": f"sum by (node) ({metric}{{{matchers}}})"}


def _of_gpu(metric: str, *matching: str, by: str = "") -> str:
    matchers = ", ".join((*matching, 'kubernetes_node=~"$node"'))
    return f"max by (kubernetes_node, gpu{by}) ({metric}{{{matchers}}})"


_REJECTED = 'kube_pod_status_reason{reason="UnexpectedAdmissionError"} * on (namespace, pod) group_left (node) kube_pod_info'
_THROTTLED = 'clock_event=~"hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"'
_NODES = (
    Panel(
        "GPU units by node",
        "Units that pods can request. A GPU that is shared counts several times.",
        _of_node("kube_node_status_allocatable", 'resource=~"nvidia_com_.+"'),
    ),
    Panel(
        "Nodes that are not ready",
        "1: the node is not Ready, or its kubelet does not report.",
        _of_node("kube_node_status_condition", 'condition="Ready"', 'status!="true"'),
        span=8,
        limit=1,
    ),
    Panel("Cordoned nodes", "1: the node gets no new pods.", _of_node("kube_node_spec_unschedulable"), span=8, limit=1),
    Panel(
        "Rejected pods",
        "Pods that the kubelet of a Ready node rejected (UnexpectedAdmissionError). If one node rejects many, drain it.",
        _of_node(_REJECTED),
        span=8,
        limit=1,
    ),
)
_ERRORS = (
    Panel(
        "XID errors",
        "Errors of the driver in the last 5 minutes, by code. The code says who is at fault: the job, or the GPU.",
        {_GPU + "XID {{xid}}": _of_gpu("DCGM_EXP_XID_ERRORS_COUNT", 'xid!=""', by=", xid")},
        limit=1,
    ),
    Panel(
        "Failed health checks",
        "Health checks of DCGM that do not pass, by the part that they watch.",
        {_GPU + "{{health_watch}}": _of_gpu("DCGM_EXP_GPU_HEALTH_STATUS", by=", health_watch")},
        limit=1,
    ),
    Panel(
        "ECC errors",
        "Memory errors since the driver was loaded. Double-bit errors are not corrected.",
        {
            _GPU + "double-bit": _of_gpu("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
            _GPU + "single-bit": _of_gpu("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
        },
    ),
    Panel(
        "Remapped memory rows",
        "Rows of memory that the GPU replaced by spare ones. A failed remap means that no spare row was left.",
        {
            _GPU + "uncorrectable": _of_gpu("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
            _GPU + "correctable": _of_gpu("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"),
            _GPU + "failed": _of_gpu("DCGM_FI_DEV_ROW_REMAP_FAILURE"),
        },
    ),
    Panel(
        "Throttling",
        "How often heat or power slowed the clocks in the last 5 minutes. Idle clocks and the power cap do not count.",
        {_GPU + "{{clock_event}}": _of_gpu("DCGM_EXP_CLOCK_EVENTS_COUNT", _THROTTLED, by=", clock_event")},
        limit=1,
    ),
)


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The temperature limit is that of its alerts."""
    missing = Panel(
        "Missing GPUs",
        "GPUs of the instance type that DCGM does not report. The node has lost a GPU, or its exporter does not answer.",
        _missing(cluster),
        limit=1,
    )
    heat = Panel(
        "Temperature by GPU",
        "The red value is the threshold of the alert.",
        {_GPU: _of_gpu("DCGM_FI_DEV_GPU_TEMP")},
        "celsius",
        limit=alerts.temperature,
    )
    # OCI machines are not nodes. Prometheus has only the metrics that they push.
    every = '{__name__=~"gpu_ci:node_pool|DCGM_FI_DEV_GPU_TEMP"}' if provider_of(cluster).gateway(cluster) else "gpu_ci:node_pool"
    node = Variable("node", f"label_values({every}, kubernetes_node)")
    return Board("gpu-ci-nodes", "node health", (missing, *_NODES, *_ERRORS, heat), (node,))


def _missing(cluster: Cluster) -> dict[str, str]:
    """GPUs of each node less those found. All types of a pool have the same number."""
    pools: dict[str, Pool] = dict(cluster.pools)
    gpus = by_value({name: pool.machines[0].gpus for name, pool in pools.items()})
    nodes = 'kubernetes_node=~"$node"'
    parts = (f'{count} - gpu_ci:node_gpus{{pool=~"{names}", {nodes}}}' for count, names in gpus.items())
    return {"{{kubernetes_node}}": " or ".join(parts)} if gpus else {}
