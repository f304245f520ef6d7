"""What a dashboard shows, as plain data. `grafana.py` makes Grafana's JSON from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.settings.namespaces import runner_namespace

AUTO = "__auto"
"""Grafana names each series by the labels in which it differs from the others."""
EVERY = ".*"
"""Value of a variable for which nothing is selected. It also matches series without the label."""
Query = tuple[str, str]
"""(legend, PromQL expression). In a table the legend is the title of a column, and a query without one adds only labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. `unit` is Grafana's name of a unit, `span` the width in columns of 24, `limit` a value that is drawn in red."""

    title: str
    text: str
    """What the panel shows and what it cannot show."""
    queries: tuple[Query, ...]
    kind: Literal["lines", "stack", "number", "table"] = "lines"
    unit: str = "short"
    span: int = 12
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A list at the top of a dashboard. `query` reads its values from Prometheus; without one they are `values` (text, value)."""

    name: str
    label: str
    query: str = ""
    values: tuple[tuple[str, str], ...] = ()
    several: bool = True
    """Whether several values may be chosen, or all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard. `uid` is part of its address, so it must not change."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


def renamed(series: str, to: str, label: str, pattern: str = "(.+)") -> str:
    """The same series with the label `to`: what `pattern` finds in `label`."""
    return f'label_replace({series}, "{to}", "$1", "{label}", "{pattern}")'


def of_runner_class(series: str) -> str:
    """Series of a GPU with the label `scale_set`. The namespace of a runner set has its name."""
    return renamed(series, "scale_set", "exported_namespace", runner_namespace("(.+)"))


def of_pool(series: str) -> str:
    """Series of a GPU with the label `pool`, in the pools that are chosen at the top of the dashboard."""
    pools = 'group by (kubernetes_node, pool) (gpu_ci:gpu_utilization{pool=~"$pool"})'
    return f"{series} * on (kubernetes_node) group_left (pool) {pools}"
