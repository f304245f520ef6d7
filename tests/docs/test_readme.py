"""The README is short, and its table of prices is what the plans say. GPU_CI_RENEW=1 writes the table anew."""

from __future__ import annotations

from fleet.facts.tables import rows
from fleet.loading.stackfile import stacks
from fleet.settings.budget import MONTH
from gpu_ci.offline.commands.init import worth_hours
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


def test_the_hours_below_which_githubs_runners_are_cheaper_are_computed():
    plan = make_plan("small", ROOT, ROOT / "examples" / "Pulumi.small.yaml")
    (github,) = (row for row in rows("prices.csv") if row["item"] == "github-gpu-minute")
    line = (
        f"- You use fewer than about {worth_hours(plan)} GPU hours a month. The small fleet costs "
        f"{plan.cost[0].usd * MONTH:.0f} USD a month without jobs, and GitHub's own T4 runner "
        f"{float(github['usd_per_hour']) * 60:.2f} USD an hour ([`prices.csv`](fleet/facts/data/prices.csv), {github['date']})."
    )
    assert_written(README, "costs:worth", f"{line}\n")
