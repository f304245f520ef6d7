"""What a dashboard shows, as plain data: a file of panels for each topic. `grafana.py` makes Grafana's JSON from it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_FOLDER = Path(__file__).parent
EVERY = ".*"
"""Value of a variable for which nothing is selected. It also matches series without the label."""


@dataclass(frozen=True, slots=True)
class Panel:
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


def panels(file: str, changes: Mapping[str, Mapping[str, Any]] = {}) -> tuple[Panel, ...]:
    """The panels of a file of this folder. `changes` has the fields that depend on the settings, by title."""
    rows = tomllib.loads((_FOLDER / file).read_text(encoding="utf-8"))["panel"]
    return tuple(Panel(**row | changes.get(row["title"], {})) for row in rows)
