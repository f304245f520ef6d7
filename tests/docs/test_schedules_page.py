"""docs/schedules.md: the example is seed 001's rule, and its price is that of the plan."""

from __future__ import annotations

from datetime import date

from ruamel.yaml import YAML

from fleet.loading.config import load
from fleet.prove.bill import weeks
from fleet.providers.eks.groups import zone_actions
from fleet.settings.model import Nodes
from gpu_ci.offline.words import week
from tests.builders import cluster, config, runner
from tests.docs.markdown import ROOT, fences

PAGE = ROOT / "docs" / "schedules.md"


def test_the_page_has_seed_001s_rule_and_its_price() -> None:
    (block,) = (each for each in fences() if each.page == PAGE and each.language == "yaml")
    pools = YAML(typ="safe", pure=True).load(block.text)["pools"]
    fleet = load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": runner(pool="t4-day")})}))
    schedules = fleet.clusters["usw2"].pools["t4-day"].schedules
    assert schedules is not None
    start, _, *holidays = zone_actions(schedules, ["us-west-2a"], Nodes(max=5))["us-west-2a"]
    assert (start.recurrence, start.least) == ("0 9 * * 1,2,3,4,5", 5), 'seed 001: "0 9 * * 1-5", --replicas=5'
    assert len(holidays) == 2
    usual, christmas = (next(weeks(fleet, day)) for day in (date(2026, 11, 23), date(2026, 12, 21)))
    name, *cells = week(usual)
    assert " | ".join((f"| `{name}`", *cells)) in PAGE.read_text(encoding="utf-8")
    assert (usual.hours, christmas.hours) == (45, 36)
