"""What each dashboard of a cluster shows, as plain data: a TOML file for each, and what depends on the settings.

`grafana.py` makes Grafana's JSON from it.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from fleet.facts.record import Record
from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import by_value, set_of_space
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster
from fleet.settings.pool import Pool

EVERY = ".*"
"""Value of a variable for which nothing is selected. It also matches series without the label."""


class Panel(Record):
    """One panel. `text` says what it shows and what it cannot show. `queries` are PromQL expressions by legend.

    With the legend `__auto` Grafana names each series by the labels in which it differs from the others. In a table the legend is
    the title of a column, and a query with an empty one adds only its labels. `unit` is Grafana's name of a unit, `span` the
    width in columns of 24, and from `limit` on values are drawn in red.
    """

    title: str
    text: str
    queries: Mapping[str, str]
    unit: str = "short"
    span: int = 12
    limit: float | None = None
    kind: Literal["lines", "stack", "number", "table"] = "lines"


class Variable(Record):
    """A list at the top of a dashboard. It has `values` by text, or what `query` reads from Prometheus.

    `several`: whether several values may be chosen, or all of them.
    """

    name: str
    query: str = ""
    values: Mapping[str, str] | None = None
    several: bool = True


class Board(Record):
    """One dashboard. `uid` is part of its address, so it must not change."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


def boards(cluster: Cluster, alerts: Alerts) -> tuple[Board, ...]:
    """The dashboards of one cluster. Objectives of the queue time and the temperature limit are those of its alerts."""
    pools: dict[str, Pool] = dict(cluster.pools)
    gpus = by_value({name: pool.machines[0].gpus for name, pool in cluster.gpu_pools.items()})
    # All types of a pool have the same number of GPUs.
    missing = [f'{count} - gpu_ci:node_gpus{{pool=~"{names}", kubernetes_node=~"$node"}}' for count, names in gpus.items()]
    objectives = by_value({name: alerts.objective(name) for name in cluster.runners})
    shares = [f'gpu_ci:queue_seconds:p95{{scale_set=~"{names}"}} / {seconds}' for seconds, names in objectives.items()]
    changes: dict[str, dict[str, Any]] = {
        "Queue time p95 as a share of the objective": {"queries": {"{{scale_set}}": " or ".join(shares)} if shares else {}},
        "Missing GPUs": {"queries": {"{{kubernetes_node}}": " or ".join(missing)} if missing else {}},
        "Temperature by GPU": {"limit": alerts.temperature},
        "pool": {"values": {name: name for name in pools}},
    }
    if cluster.queues is None:
        changes |= {title: {"queries": {}} for title in ("Pending workloads by queue", "Admitted workloads by queue")}
    if provider_of(cluster).gateway(cluster):
        # OCI machines are not nodes. Prometheus has only the metrics that they push.
        series = '{__name__=~"gpu_ci:node_pool|DCGM_FI_DEV_GPU_TEMP"}'
        changes["node"] = {"query": f"label_values({series}, kubernetes_node)"}
    spaces = set_of_space(cluster)
    return tuple(_board(name, changes, spaces) for name in ("fleet", "gpu", "node_health", "cost"))


def _board(name: str, changes: Mapping[str, Mapping[str, Any]], spaces: Mapping[str, str]) -> Board:
    """The dashboard of a file. `changes` has what depends on the settings, by the title of a panel or the name of a variable.

    `spaces` is `set_of_space` of the cluster.
    """

    def chosen(metric: re.Match[str]) -> str:
        return _chosen(metric[1], spaces["namespace"], spaces["set"])

    rows = tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))
    panels = [row | changes.get(row["title"], {}) for row in rows["panel"]]
    for panel in panels:
        panel["queries"] = {legend: re.sub(r"<([\w:]+)>", chosen, query) for legend, query in panel["queries"].items()}
    variables = (Variable(**row | changes.get(row["name"], {})) for row in rows.get("variable", ()))
    return Board(rows["uid"], rows["title"], tuple(Panel(**panel) for panel in panels), tuple(variables))


def _chosen(metric: str, namespace: str, name: str) -> str:
    """The series of the pools and jobs that are chosen at the top, with the labels `pool` and `scale_set`.

    While every job is chosen, idle GPUs are among them. The namespace of a runner set has its name.
    """
    of_pool = f'{metric}{{exported_pod=~"$job"}} * on (kubernetes_node) group_left (pool) gpu_ci:node_pool{{pool=~"$pool"}}'
    return f'label_replace({of_pool}, "scale_set", "{name}", "exported_namespace", "{namespace}")'
