"""A fleet with monitoring, its dashboards, and what their panels ask of Prometheus. All is read from the built JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import promql_parser

from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.dashboards import dashboards
from tests.builders import cluster, config, pool, runner

CLUSTER = "usw2"
VALUES = {"pool": ".*", "job": ".*", "node": ".*", "__range": "1h"}
"""What Grafana writes in place of each variable while everything is chosen."""
VIEWS = ("pool", "scale_set", "exported_pod", "kubernetes_node, gpu")
"""Values of the variable `by`."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel as Prometheus gets it, and the legend of its series."""

    board: str
    panel: str
    legend: str
    text: str

    @property
    def place(self) -> str:
        """Dashboard and panel, for messages."""
        return f"{self.board} / {self.panel}: {self.text}"

    @property
    def labels(self) -> list[str]:
        """The labels that the legend shows, or by which the query groups: a table and an automatic legend show those."""
        grouped = re.match(r"[\d *]*\w+ by \((.+?)\)", self.text)
        return re.findall(r"{{(\w+)}}", self.legend) or (grouped[1].split(", ") if grouped else [])


def monitored(**changes: Any) -> Fleet:
    """An EKS cluster with monitoring, two GPU pools, three runner classes of two groups, and queues; `changes` replace keys."""
    pools = {"t4": pool(acceptSharedNodes="both teams have the same repositories"), "a10g": pool(instanceTypes=["g5.12xlarge"])}
    runners = {"gpu-t4": runner(), "gpu-t4-b": runner(group="team-b"), "gpu-a10g": runner(pool="a10g", group="team-b")}
    monitoring = {"prometheus": "install", "alerts": {"objectives": {"gpu-a10g": "30m"}}}
    teams = {"vision": {"namespaces": ["vision"], "quotas": [{"pool": "t4", "nominal": 1}]}}
    settings = {"pools": pools, "runners": runners, "monitoring": monitoring, "queues": {"teams": teams}} | changes
    return load(config(clusters={CLUSTER: cluster(**settings)}))


@cache
def built() -> dict[str, dict[str, Any]]:
    """The dashboards of that fleet."""
    return dashboards(monitored(), CLUSTER)


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """(uid of the dashboard, panel)."""
    for uid, board in built().items():
        for panel in board["panels"]:
            yield uid, panel


def queries(**chosen: str) -> list[Query]:
    """Every query of every panel, and those of the variables. `chosen` are values of variables."""
    found = []
    for uid, panel in panels():
        for target in panel["targets"]:
            views = [chosen["by"]] if "by" in chosen else VIEWS if "$by" in target["expr"] else [""]
            for by in views:
                text = filled(target["expr"], VALUES | chosen | {"by": by})
                found.append(Query(uid, panel["title"], target["legendFormat"], text))
    return found


def variable_queries() -> list[Query]:
    """The series whose labels a variable lists, and that label as the legend."""
    found = []
    for uid, board in built().items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
                assert asked, variable["query"]
                found.append(Query(uid, f"variable {variable['name']}", f"{{{{{asked[2]}}}}}", asked[1]))
    return found


def filled(text: str, values: dict[str, str]) -> str:
    """A query with the values of its variables. `$1` of label_replace is not a variable of Grafana."""
    made = re.sub(r"\$([a-z_]\w*)", lambda found: values[found[1]], text)
    assert not re.search(r"\$(?!1\b)|\[\[", made), made
    return made


def selectors(query: Query) -> Iterator[tuple[str, set[str]]]:
    """(metric, labels that are matched) of every selector of a query."""
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any) -> None:
        selector = getattr(node, "vector_selector", node)
        if isinstance(selector, promql_parser.VectorSelector):
            found.append((selector.name or "", {matcher.name for matcher in selector.matchers.matchers}))

    promql_parser.walk(promql_parser.parse(query.text), visit)
    assert found, query.place
    yield from found
