"""The README is short, and its table of prices is what the plans say. GPU_CI_RENEW=1 writes the table anew."""

from __future__ import annotations

from fleet.loading.stackfile import stacks
from gpu_ci.offline.plan import make_plan
from tests.docs.markdown import ROOT, assert_written

README = ROOT / "README.md"
MOST = 8192
"""Bytes. A reader decides in a minute; captured output and details belong to pages of docs/."""


def test_the_readme_is_short():
    assert len(README.read_bytes()) <= MOST


def test_the_table_of_prices_is_what_the_plans_say():
    rows = []
    for stack in stacks(ROOT):
        plan = make_plan(stack, ROOT)
        where = ", ".join(f"{cluster.provider} {cluster.region}" for _, cluster in plan.fleet.clusters_by_name())
        idle, worst = plan.cost
        rows.append(f"| {stack} | {where} | {len(plan.resources)} | {idle} | {worst} |")
    head = ["| stack | clusters | resources | USD an hour, idle | at worst |", "|---|---|---|---|---|"]
    assert_written(README, "costs:stacks", "\n".join([*head, *rows]) + "\n")
