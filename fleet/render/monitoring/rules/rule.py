"""Alerts and recording rules as plain data (monitoring.coreos.com/v1, PrometheusRule)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fleet.charts.kube_state_metrics import sanitized
from fleet.settings.pool import Pool

Rule = dict[str, Any]
RUNBOOK = "docs/troubleshooting.md"
"""The page that has a section for every alert."""

_ALERTS = tomllib.loads((Path(__file__).parent / "alerts.toml").read_text(encoding="utf-8"))
_VALUE = re.compile(r"<(\w+)>")


def record(name: str, expr: str, **labels: str) -> Rule:
    """A recording rule: the result of a query as the series `name`."""
    return {"record": name, "expr": expr} | ({"labels": labels} if labels else {})


def alert(name: str, expr: str, wait: int = 0, text: Mapping[str, object] = {}, **labels: str) -> Rule:
    """An alert that fires once `expr` has had results for `wait` seconds, or for those of its row in `alerts.toml`.

    `text` has more values for the words of the row. Raises KeyError if they need another one.
    """
    row = _ALERTS[name]
    seconds = wait or row.get("wait", 0)
    values = {"wait": seconds, **labels, **text}
    summary, description = (_VALUE.sub(lambda key: str(values[key[1]]), row[part]) for part in ("summary", "description"))
    return {
        "alert": name,
        "expr": expr,
        **({"for": f"{seconds}s"} if seconds else {}),
        "labels": {"severity": row["severity"], **labels},
        "annotations": {"summary": summary, "description": description, "runbook_url": f"{RUNBOOK}#{name.lower()}"},
    }


def group(topic: str, rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """The group of a topic, or none without rules. Prometheus evaluates its rules in order."""
    listed = list(rules)
    return [{"name": f"gpu-ci-{topic}", "interval": "1m", "rules": listed}] if listed else []


def one_of(names: Iterable[str]) -> str:
    """A regular expression that matches these names. Names of sets, pools and namespaces have no special characters."""
    return "|".join(names)


def by_value(values: Mapping[str, int]) -> dict[int, str]:
    """`one_of` the names that have a value, for each value."""
    return {value: one_of(name for name, number in values.items() if number == value) for value in sorted(set(values.values()))}


def renamed(series: str, to: str, label: str, pattern: str = "(.+)") -> str:
    """The same series with the label `to`: what `pattern` finds in `label`. Without a match the label stays out."""
    return f'label_replace({series}, "{to}", "$1", "{label}", "{pattern}")'


def node_label(series: str) -> str:
    """The series with their label `node` as `kubernetes_node`, which the DCGM exporter's series have."""
    return renamed(series, "kubernetes_node", "node")


def node_matchers(name: str, pool: Pool) -> list[str]:
    """Matchers of `kube_node_labels` that select the nodes of a pool."""
    return [f'label_{sanitized(key)}="{value}"' for key, value in pool.node_selector(name).items()]
