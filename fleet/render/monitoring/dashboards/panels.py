"""What a dashboard shows, as plain data. `grafana.py` makes Grafana's JSON from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fleet.render.monitoring.rules.rule import renamed
from fleet.settings.namespaces import runner_namespace

AUTO = "__auto"
"""A legend: Grafana names each series by the labels in which it differs from the others."""
EVERY = ".*"
"""Value of a variable for which nothing is selected. It also matches series without the label."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `text` says what it shows and what it cannot show. `queries` are PromQL expressions by legend.

    In a table the legend is the title of a column, and a query with an empty one adds only its labels. `unit` is Grafana's name
    of a unit, `span` the width in columns of 24, and from `limit` on values are drawn in red.
    """

    title: str
    text: str
    queries: Mapping[str, str]
    unit: str = "short"
    span: int = 12
    limit: float | None = None
    kind: Literal["lines", "stack", "number", "table"] = "lines"


stack, number, table = (
    partial(Panel, kind="stack"),
    partial(Panel, kind="number", span=6),
    partial(Panel, kind="table", span=24),
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A list at the top of a dashboard. It has `values` by text, or what `query` reads from Prometheus.

    `several`: whether several values may be chosen, or all of them.
    """

    name: str
    query: str = ""
    values: Mapping[str, str] | None = None
    several: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `uid` is part of its address, so it must not change."""

    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


def of_runner_class(series: str) -> str:
    """Series of a GPU with the label `scale_set`. The namespace of a runner set has its name."""
    return renamed(series, "scale_set", "exported_namespace", runner_namespace("(.+)"))


def of_pool(series: str) -> str:
    """Series of a GPU with the label `pool`, in the pools that are chosen at the top of the dashboard."""
    return f'{series} * on (kubernetes_node) group_left (pool) gpu_ci:node_pool{{pool=~"$pool"}}'
