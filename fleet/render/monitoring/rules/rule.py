"""Alerts and recording rules as plain data (monitoring.coreos.com/v1, PrometheusRule)."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fleet.charts.kube_prometheus import sanitized
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import jobs_namespace, runner_namespace
from fleet.settings.pool import Pool
from fleet.settings.runner import Runner

Rule = dict[str, Any]
RUNBOOK = "docs/troubleshooting.md"
"""The page that has a section for every alert."""

_HERE = Path(__file__).parent
_ALERTS, _RECORDS = (tomllib.loads((_HERE / name).read_text(encoding="utf-8")) for name in ("alerts.toml", "records.toml"))


PHASES: dict[str, str] = _RECORDS["phases"]
"""The query of each phase of the start of a runner."""


def _filled(text: str, values: Mapping[str, object]) -> str:
    """A text with the values in place of <name>, also in a value. Raises KeyError for a name without a value."""
    return re.sub(r"<(\w+)>", lambda key: _filled(str(values[key[1]]), values), text)


def record(name: str, expr: str = "", labels: Mapping[str, str] = {}, **values: object) -> Rule:
    """A recording rule: the result of a query as the series `name`. Without `expr` it is that of `records.toml`."""
    query = expr or _filled(_RECORDS[name]["expr"], _RECORDS["parts"] | values)
    return {"record": name, "expr": query} | ({"labels": dict(labels)} if labels else {})


def alert(name: str, wait: int = 0, labels: Mapping[str, str] = {}, **values: object) -> Rule:
    """An alert of `alerts.toml`. It fires once its query has had results for `wait` seconds, or for those of its row.

    `values` and `labels` are for the query and the words of the row. Raises KeyError if they need another one.
    """
    row = _ALERTS[name]
    seconds = wait or row.get("wait", 0)
    expr, summary, description = (
        _filled(row[part], _RECORDS["parts"] | {"wait": seconds, **labels, **values})
        for part in ("expr", "summary", "description")
    )
    words = {"summary": summary, "description": description, "runbook_url": f"{RUNBOOK}#{name.lower()}"}
    head = {"alert": name, "expr": expr} | ({"for": f"{seconds}s"} if seconds else {})
    return head | {"labels": {"severity": row["severity"], **labels}, "annotations": words}


def one_of(names: Iterable[str]) -> str:
    """A regular expression that matches these names. Names of sets, pools and namespaces have no special characters."""
    return "|".join(names)


def spaces_of(name: str, runner: Runner) -> tuple[str, ...]:
    """The namespaces of the pods of a set: that of its runners, and that of its jobs in containers, if it has such."""
    return (runner_namespace(name), jobs_namespace(name)) if runner.needs_container else (runner_namespace(name),)


def set_of_space(cluster: Cluster) -> dict[str, str]:
    """The expression that matches the namespaces of pods of runner sets, and what of it is the name of the set."""
    if not (names := one_of(name for name, runner in cluster.runners.items() if runner.needs_container)):
        return {"namespace": runner_namespace("(.+)"), "set": "$1"}
    return {"namespace": f"{jobs_namespace(f'({names})')}|{runner_namespace('(.+)')}", "set": "$1$2"}


def by_value(values: Mapping[str, int]) -> dict[int, str]:
    """`one_of` the names that have a value, for each value."""
    return {value: one_of(name for name, number in values.items() if number == value) for value in sorted(set(values.values()))}


def node_matchers(name: str, pool: Pool) -> list[str]:
    """Matchers of `kube_node_labels` that select the nodes of a pool."""
    return [f'label_{sanitized(key)}="{value}"' for key, value in pool.node_selector(name).items()]
