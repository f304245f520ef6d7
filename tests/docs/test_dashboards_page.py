"""The tables of docs/dashboards.md are made from the built dashboards of an example fleet."""

from __future__ import annotations

import pytest

from tests.docs.markdown import ROOT, assert_written
from tests.monitoring.dashboard_fleet import built, queries, selectors

PAGE = ROOT / "docs/dashboards.md"


def table(uid: str) -> str:
    """A row for each panel: title, unit, description, metrics."""
    rows = []
    for panel in built()[uid]["panels"]:
        asked = [query for query in queries() if (query.board, query.panel) == (uid, panel["title"])]
        metrics = sorted({name for query in asked for name, _ in selectors(query)})
        unit = panel["fieldConfig"]["defaults"]["unit"]
        rows.append(f"| {panel['title']} | {unit} | {panel['description']} | {', '.join(f'`{name}`' for name in metrics)} |")
    return "\n".join(["", "| panel | unit | | metrics |", "|---|---|---|---|", *rows, "", ""])


@pytest.mark.parametrize("uid", built())
def test_the_page_lists_every_panel(uid):
    assert_written(PAGE, f"dashboards:{uid}", table(uid))
