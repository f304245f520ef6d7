"""The hours of a bill: what a slow simulation pays, which of two fleets costs more, and what windows add."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts.bill import Window, read, written
from fleet.facts.pricing import average, total
from fleet.loading.config import load
from fleet.prove.bill import bill
from tests.builders import cluster, config, pool, runner
from tests.day import AS_OF
from tests.examples import SEARCHES, WHOLE
from tests.waiting import Cluster, fleets

pytestmark = pytest.mark.usefixtures("catalogue")
many = settings(
    max_examples=500 if SEARCHES else WHOLE,
)


def costs(document: dict[str, Any]) -> tuple[float, float, float]:
    """USD of the idle, the average and the worst hour."""
    lines = bill(load(document), AS_OF)
    idle, worst = total(lines)
    assert not worst.unknown, "an unknown price would make the sums incomparable"
    return idle.usd, average(lines).usd, worst.usd


@many
@given(fleets(), st.integers(0, 2**32))
def test_a_simulation_of_every_node_pays_the_same_without_jobs_and_never_more_than_the_worst_hour(
    document: dict[str, Any], seed: int
) -> None:
    idle, mean, worst = costs(document)
    clusters = [Cluster(each) for each in document["clusters"].values()]
    assert idle == pytest.approx(sum(each.cost(each.nodes(None)) + each.rest for each in clusters), abs=1e-6)
    week = [sum(each.cost(each.nodes(hour)) + each.rest for each in clusters) for hour in range(168)]
    assert mean == pytest.approx(sum(week) / 168, abs=1e-6)
    assert idle <= mean + 1e-9
    assert max(week) <= worst + 1e-9
    draw = random.Random(seed)  # noqa: S311 - the hours of a test
    for hours in zip(*(each.hours(draw, 60) for each in clusters), strict=True):
        assert sum(hours) <= worst + 1e-9


def _raised(document: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """The fleet with one larger minimum, maximum or window."""
    after = copy.deepcopy(document)
    owners = [
        (owner, sizes, key)
        for each in after["clusters"].values()
        for kind, sizes, key in (("pools", "nodes", "nodes"), ("runners", "scale", "runners"))
        for owner in each[kind].values()
        if sizes in owner
    ]
    owner, sizes, key = data.draw(st.sampled_from(owners))
    windows = list(owner.get("schedules", {"windows": {}})["windows"].values())
    below = min((each[key] for each in windows), default=owner[sizes]["max"] + 1) - 1
    fixed = key == "nodes" and "placeholders" in owner
    if windows and bool(data.draw(st.integers(0, 1))):
        window = data.draw(st.sampled_from(windows))
        window[key] = min(window[key] + 1, owner[sizes]["max"])
    elif bool(data.draw(st.integers(0, 1))) and owner[sizes].get("min", 0) < below - fixed:
        owner[sizes]["min"] = owner[sizes].get("min", 0) + 1
    else:
        owner[sizes]["max"] += 1
    return after


@many
@given(fleets(), st.data())
def test_a_larger_minimum_maximum_or_window_never_costs_less(document: dict[str, Any], data: st.DataObject) -> None:
    before, after = costs(document), costs(_raised(document, data))
    assert all(was <= now + 1e-9 for was, now in zip(before, after, strict=True)), (before, after)


def test_the_bill_of_a_fleet_with_every_kind_of_waiting_capacity_is_the_arithmetic_of_its_prices() -> None:
    """Each number is an hour: price of g4dn.2xlarge 0.752, of g4dn.12xlarge 3.912, of a GiB of disk 0.08 / 730."""
    of_nodes, of_runners = (
        {"timeZone": "Europe/Berlin", "windows": {"work": {"days": ["mon", "tue"], "start": "09:00", "end": "17:00", key: count}}}
        for key, count in (("nodes", 3), ("runners", 9))
    )
    pools = {
        "one": pool(nodes={"min": 1, "max": 4}, placeholders=1, warm={"maxPrepared": 3, "state": "stopped"}, schedules=of_nodes),
        "four": pool(instanceTypes=["g4dn.12xlarge"], nodes={"max": 3}),
    }
    runners = {
        "small": runner(pool="one", scale={"min": 1, "max": 4}),
        "large": runner(pool="four", labels=["large"], scale={"min": 5, "max": 12}, schedules=of_runners),
    }
    lines = {line.item: line for line in bill(load(config(clusters={"usw2": cluster(pools=pools, runners=runners)})), AS_OF)}
    open_ = 16 / 168
    # A runner and a placeholder, on the node that always runs and one more. In the window three nodes.
    assert (lines["pool one"].least, lines["pool one"].most) == (2, 4)
    assert lines["pool one"].usual == pytest.approx(2 + open_)
    # Five runners on nodes of four; nine in the window.
    assert (lines["pool four"].least, lines["pool four"].most) == (2, 3)
    assert lines["pool four"].usual == pytest.approx(2 + open_)
    # Two system nodes of 50 GiB; four nodes and one stopped machine of 200. In the window two nodes more and no machine.
    assert lines["disks"].least == 2 * 50 + 5 * 200
    assert lines["disks"].usual == pytest.approx(2 * 50 + (5 + open_) * 200)
    idle, _ = total(lines.values())
    gib = 0.08 / 730
    by_hand = 2 * 0.752 + 2 * 3.912 + 2 * 0.096 + 1100 * gib + 0.1 + 0.01 + 0.045 + 0.005
    assert idle.usd == pytest.approx(by_hand, abs=1e-5)
    assert average(lines.values()).usd == pytest.approx(by_hand + open_ * (0.752 + 3.912 + 200 * gib), abs=1e-5)


@given(
    st.lists(
        st.builds(Window, st.integers(1, 99), st.just((0, 6)), st.integers(0, 1439), st.integers(0, 1439), st.just("Etc/UTC"))
    )
)
def test_windows_in_a_tag_are_read_as_they_were_written(windows: list[Window]) -> None:
    text = written(windows)
    assert (read(text) if text else ()) == tuple(windows)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 +-=._:/@"), (
        "the characters of AWS' tags"
    )
