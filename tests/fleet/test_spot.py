"""What a plan says of spot pools: figures with source and date, Capacity Rebalancing."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import date
from typing import Any

from fleet.facts.hardware import ON_DEMAND, machine, price
from fleet.facts.spot import History, Sighting, history
from fleet.facts.tables import entry, rows
from fleet.loading.config import load
from fleet.prove.remarks import spot as remarks
from fleet.providers.fleet import Fleet
from tests.builders import ROOT, cluster, config, oke_cluster, pool, runner

ROWS = tuple(entry(Sighting, row) for row in rows("spot.csv"))
ZONES = ["us-west-2a", "us-west-2b"]


def fleet(*types: str, asks: dict[str, Any] | None = None, **changes: Any) -> Fleet:
    """A fleet with one spot pool in two zones, and a runner class on it."""
    held = pool(**({"instanceTypes": list(types), "capacity": "spot", "nodes": {"min": 0, "max": 4}} | changes))
    return load(config(clusters={"usw2": cluster(zones=ZONES, pools={"t4": held}, runners={"gpu-t4": runner(**asks or {})})}))


def said(text: str, found: Fleet) -> list[str]:
    return [remark for remark in remarks(found) if text in remark]


def _fields(row: Sighting) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


# -- figures -----------------------------------------------------------------------------------------------------------


def test_a_row_is_a_price_or_a_saving_with_a_band_and_has_source_and_date() -> None:
    sources = (ROOT / "fleet" / "facts" / "data" / "README.md").read_text()
    for row in ROWS:
        assert machine(row.machine).cloud == "aws", row
        assert bool(row.usd_per_hour) != (row.saving is not None), row
        assert (row.saving is None) == (not row.interruption), row
        assert row.interruption in ("", "<5%", "5-10%", "10-15%", "15-20%", ">20%"), row
        assert f"| {row.source} |" in sources, row
        assert date.fromisoformat(row.date) <= date(2026, 11, 23), row
    assert len({(row.machine, row.region, row.source, row.date) for row in ROWS}) == len(ROWS), "one row for each"


def test_no_spot_price_is_above_the_on_demand_price() -> None:
    """EC2 user guide, Spot Instance pricing history: a spot price never exceeds the on-demand price."""
    for row in ROWS:
        full = price(row.machine, row.region, ON_DEMAND)
        if full is not None and row.usd is not None:
            assert 0 < row.usd <= full.usd_per_hour, row


def test_a_history_is_a_range_one_price_or_unknown() -> None:
    found = history("g4dn.2xlarge", "us-east-1")
    assert str(found) == "0.293-0.318 USD/h, >20% interrupted in a month"
    assert found.sources == {"Spot Instance Advisor, 2025-06-28", "EC2 Spot price list, 2026-08-06"}
    assert str(history("g7e.2xlarge", "us-east-1")) == "1.482 USD/h (one price, no history), interruptions unknown"
    assert history("g4dn.2xlarge", "af-south-1").sightings == ()
    older, newer = (
        Sighting(**{**_fields(ROWS[0]), "interruption": band, "date": day}) for band, day in (("<5%", "1"), (">20%", "2"))
    )
    assert History((older, newer)).interruption == ">20%", "the latest counts"
    # No source has an on-demand price of the type, so the saving gives none.
    (saved,) = (row for row in ROWS if row.machine == "p3dn.24xlarge" and row.region == "us-west-2" and row.saving)
    assert str(History((saved,))) == "price unknown, >20% interrupted in a month"


def test_a_plan_has_the_figures_of_each_type_and_says_which_are_unknown() -> None:
    assert said("spot", fleet("g4dn.2xlarge", "g4dn.4xlarge"))[0] == (
        "usw2: pool t4: spot so far: g4dn.2xlarge 0.278-0.287 USD/h, >20% interrupted in a month; g4dn.4xlarge 0.361-0.385 "
        "USD/h, >20% interrupted in a month (EC2 Spot price list, 2026-08-06; Spot Instance Advisor, 2025-06-28)"
    )
    held = pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"], capacity="spot")
    settings = cluster(region="af-south-1", zones=["af-south-1a", "af-south-1b"], pools={"t4": held}, runners={})
    assert said("unknown", load(config(clusters={"afs1": settings}))) == [
        "afs1: pool t4: spot price and interruptions of g4dn.2xlarge and g4dn.4xlarge in af-south-1: unknown"
    ]


# -- Capacity Rebalancing ----------------------------------------------------------------------------------------------


def test_capacity_rebalancing_is_one_line_for_all_spot_pools_of_eks() -> None:
    held = {name: pool(capacity="spot") for name in ("a", "b")}
    (line,) = said("capacity-rebalancing", load(config(clusters={"usw2": cluster(pools=held, runners={})})))
    assert re.match("spot pools usw2/a, usw2/b: EKS may drain a node before EC2's notice, ", line)
    on_demand = load(config(clusters={"usw2": cluster(pools={"a": pool(capacity="on-demand")}, runners={})}))
    assert list(remarks(on_demand)) == []
    assert list(remarks(load(config(clusters={"sjc": oke_cluster()})))) == []
