"""The dashboard of the nodes' health: lost GPUs, XID and ECC errors, throttling, rejected pods, nodes that are not ready."""

from __future__ import annotations

from typing import Any

from fleet.providers.registry import provider_of
from fleet.render.monitoring.dashboards.panels import Board, Variable, panels
from fleet.render.monitoring.rules.rule import by_value
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool


def board(cluster: Cluster, alerts: Alerts) -> Board:
    """The dashboard of one cluster. The temperature limit is that of its alerts."""
    changes: dict[str, dict[str, Any]] = {
        "Missing GPUs": {"queries": _missing(cluster)},
        "Temperature by GPU": {"limit": alerts.temperature},
    }
    # OCI machines are not nodes. Prometheus has only the metrics that they push.
    series = (
        '{__name__=~"gpu_ci:node_pool|DCGM_FI_DEV_GPU_TEMP"}' if provider_of(cluster).gateway(cluster) else "gpu_ci:node_pool"
    )
    node = Variable("node", f"label_values({series}, kubernetes_node)")
    return Board("gpu-ci-nodes", "node health", panels("node_health.toml", changes), (node,))


def _missing(cluster: Cluster) -> dict[str, str]:
    """GPUs of each node less those found. All types of a pool have the same number."""
    pools: dict[str, Pool] = dict(cluster.pools)
    gpus = by_value({name: pool.machines[0].gpus for name, pool in pools.items()})
    nodes = 'kubernetes_node=~"$node"'
    parts = (f'{count} - gpu_ci:node_gpus{{pool=~"{names}", {nodes}}}' for count, names in gpus.items())
    return {"{{kubernetes_node}}": " or ".join(parts)} if gpus else {}
