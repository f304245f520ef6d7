"""What a plan says of spot pools: figures with source and date, types and zones to add, Capacity Rebalancing."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import date
from typing import Any

import pytest

from fleet.facts.hardware import ON_DEMAND, machine, price
from fleet.facts.spot import History, Sighting, history, spread
from fleet.facts.tables import entry, rows
from fleet.loading.config import load
from fleet.prove.placement import place
from fleet.prove.spot import remarks, similar
from fleet.providers.fleet import Fleet
from tests.builders import ROOT, cluster, config, oke_cluster, pool, runner
from tests.cases import cases

ROWS = tuple(entry(Sighting, row) for row in rows("spot.csv"))
ZONES = ["us-west-2a", "us-west-2b"]


def fleet(*types: str, asks: dict[str, Any] | None = None, **changes: Any) -> Fleet:
    """A fleet with one spot pool in two zones, and a runner class on it."""
    held = pool(**({"instanceTypes": list(types), "capacity": "spot", "nodes": {"min": 0, "max": 4}} | changes))
    return load(config(clusters={"usw2": cluster(zones=ZONES, pools={"t4": held}, runners={"gpu-t4": runner(**asks or {})})}))


def named(*types: str, **changes: Any) -> list[str]:
    """The names of similar types."""
    return [each.name for each in similar(fleet(*types, **changes).clusters["usw2"], "t4")]


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


@pytest.mark.usefixtures("numbers")
def test_a_history_is_a_range_one_price_or_unknown() -> None:
    found = history("g4dn.2xlarge", "us-east-1")
    assert str(found) == "0.293-0.318 USD/h, >20% interrupted in a month"
    assert found.sources == {"an invented advisor, 2026-01-01", "an invented price list, 2026-01-02"}
    assert str(history("g7e.2xlarge", "us-east-1")) == "1.482 USD/h (one price, no history), interruptions unknown"
    assert history("g4dn.2xlarge", "af-south-1").sightings == ()
    older, newer = (
        Sighting(**{**_fields(ROWS[0]), "interruption": band, "date": day}) for band, day in (("<5%", "1"), (">20%", "2"))
    )
    assert History((older, newer)).interruption == ">20%", "the latest counts"
    # No source has an on-demand price of the type, so the saving gives none.
    assert str(history("p3dn.24xlarge", "us-west-2")) == "price unknown, >20% interrupted in a month"


@pytest.mark.usefixtures("numbers")
def test_a_plan_has_the_figures_of_each_type_and_says_which_are_unknown() -> None:
    assert said("spot", fleet("g4dn.2xlarge", "g4dn.4xlarge"))[0] == (
        "usw2: pool t4: spot so far: g4dn.2xlarge 0.278-0.287 USD/h, >20% interrupted in a month; g4dn.4xlarge 0.361-0.385 "
        "USD/h, >20% interrupted in a month (an invented advisor, 2026-01-01; an invented price list, 2026-01-02)"
    )
    held = pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"], capacity="spot")
    settings = cluster(region="af-south-1", zones=["af-south-1a", "af-south-1b"], pools={"t4": held}, runners={})
    assert said("unknown", load(config(clusters={"afs1": settings}))) == [
        "afs1: pool t4: spot price and interruptions of g4dn.2xlarge and g4dn.4xlarge in af-south-1: unknown"
    ]


# -- types and zones ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
def test_a_pool_of_one_type_gets_others_on_which_its_runners_fit() -> None:
    assert said("alone", fleet("g4dn.2xlarge")) == [
        "usw2: pool t4: it buys g4dn.2xlarge alone, and its jobs wait if EC2 has none; add g4dn.4xlarge to instanceTypes: the "
        "same GPUs, and its runner classes fit (the autoscaler counts every node as the first type)"
    ]
    assert said("alone", fleet("g4dn.2xlarge", "g4dn.4xlarge")) == []


@pytest.mark.usefixtures("numbers")
def test_a_smaller_type_is_named_only_if_every_runner_class_fits_on_it() -> None:
    small = {"cpu": {"request": 2, "limit": 2}, "memory": {"request": "8Gi", "limit": "8Gi"}}
    assert named("g6.4xlarge", asks=small) == ["g6.2xlarge", "g6.8xlarge"]
    large = {"cpu": {"request": 14, "limit": 14}, "memory": {"request": "56Gi", "limit": "56Gi"}}
    assert named("g6.4xlarge", asks=large) == ["g6.8xlarge"], "the class does not fit on g6.2xlarge"


@pytest.mark.usefixtures("numbers")
def test_a_type_without_the_pool_s_local_disks_or_adapters_is_not_named() -> None:
    small = {"cpu": {"request": 2, "limit": 2}, "memory": {"request": "8Gi", "limit": "8Gi"}}
    array = {"instance": {"localStorage": {"strategy": "RAID0"}}}
    assert named("g6.2xlarge", asks=small) == ["g6.xlarge", "g6.4xlarge"]
    assert named("g6.2xlarge", asks=small, nodeConfig=array) == ["g6.4xlarge"], "g6.xlarge has a smaller local disk"
    assert named("g4dn.8xlarge") == ["g4dn.4xlarge", "g4dn.16xlarge"]
    assert named("g4dn.8xlarge", efaInterfaces=1) == ["g4dn.16xlarge"], "g4dn.4xlarge takes no adapter"


@cases("name", ["g4dn.2xlarge", "g5.2xlarge", "g5.8xlarge", "g6.4xlarge", "g6e.4xlarge", "g7e.4xlarge"])
def test_a_pool_with_every_named_type_loads_and_holds_its_runners(name: str) -> None:
    others = named(name)
    assert others, name
    (placement,) = place(fleet(name, *others))
    assert placement.error == ""
    for each in others:
        assert spread(machine(name), machine(each)) <= 2, "policy spot-diversified accepts it"


@pytest.mark.usefixtures("numbers")
def test_a_type_without_a_like_gets_the_advice_of_a_fallback() -> None:
    assert said("no similar type", fleet("g6.48xlarge")) == [
        "usw2: pool t4: it buys g6.48xlarge alone, and its jobs wait if EC2 has none; no similar type has the same GPUs and "
        "holds its runner classes, so put an on-demand pool after it in pools"
    ]

    behind = {"t4": pool(instanceTypes=["g6.48xlarge"], capacity="spot"), "more": pool(instanceTypes=["g6.48xlarge"])}
    ordered = {"gpu-t4": runner(pool=None, pools=["t4", "more"])}
    found = load(config(clusters={"usw2": cluster(pools=behind, runners=ordered)}))
    assert said("no similar type", found) == [], "the class has a pool behind it"
    assert named("p4d.24xlarge") == [], "p4de has A100 with more memory, and a pool has one kind of GPU"


def test_a_pool_in_one_zone_gets_the_others() -> None:
    types = ("g4dn.2xlarge", "g4dn.4xlarge")
    assert said("its nodes are in", fleet(*types, zones=["us-west-2a"])) == [
        "usw2: pool t4: its nodes are in us-west-2a alone, and its jobs wait if EC2 has none there; add us-west-2b to its zones, "
        "or remove zones"
    ]
    (fix,) = said("its nodes are in", fleet(*types, zones=["us-west-2a"], nodes={"min": 0, "max": 2}))
    assert fix.endswith("or remove zones"), "two nodes can be in two zones"
    held = pool(instanceTypes=list(types), capacity="spot", nodes={"min": 0, "max": 1})
    one = load(config(clusters={"usw2": cluster(zones=ZONES, pools={"t4": held}, runners={"gpu-t4": runner()})}))
    (fix,) = said("its nodes are in", one)
    assert fix.endswith("raise nodes.max")
    assert said("its nodes are in", fleet(*types)) == []
    three = cluster(
        zones=[*ZONES, "us-west-2c"],
        pools={"t4": pool(instanceTypes=list(types), capacity="spot", zones=ZONES)},
        runners={"gpu-t4": runner()},
    )
    assert said("its nodes are in", load(config(clusters={"usw2": three}))) == [], "two zones are enough"


# -- Capacity Rebalancing ----------------------------------------------------------------------------------------------


def test_capacity_rebalancing_is_one_line_for_all_spot_pools_of_eks() -> None:
    held = {name: pool(capacity="spot") for name in ("a", "b")}
    (line,) = said("capacity-rebalancing", load(config(clusters={"usw2": cluster(pools=held, runners={})})))
    assert re.match("spot pools usw2/a, usw2/b: EKS may drain a node before EC2's notice, ", line)
    on_demand = load(config(clusters={"usw2": cluster(pools={"a": pool(capacity="on-demand")}, runners={})}))
    assert list(remarks(on_demand)) == []
    assert list(remarks(load(config(clusters={"sjc": oke_cluster()})))) == []
