"""How long starts take and what shorter ones cost: figures with sources, gaps that stay gaps, the cheapest settings."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.facts.pricing import Money, total
from fleet.facts.starts import PHASES, ROWS, Phase, done, phase
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.start import NEW, PLACEHOLDER, READY, STOPPED, WAITING, Start, Starts, Way, starts
from fleet.providers.registry import PROVIDERS
from tests.builders import NODE_CONFIG, cluster, config, oke_cluster, pool, read_stack, runner, talos_cluster, vm, vm_per_job
from tests.examples import examples
from tests.fleet.conformance import STACKS
from tests.strategies import configs

DAY = date(2026, 11, 23)


def of(settings: dict[str, Any]) -> Starts:
    """The starts of the first runner class of a cluster."""
    return next(starts(load(config(clusters={"usw2": settings})), DAY))


def in_pool(**changes: Any) -> Starts:
    """The starts of a runner class whose pool has these changes."""
    return of(cluster(pools={"t4": pool(**changes)}))


def way(found: Starts, start: str) -> Way:
    """The way of a class by what its job finds, with other settings than now."""
    (held,) = (each for each in found.ways if each.settings and each.start.finds == start)
    return held


# -- figures -----------------------------------------------------------------------------------------------------------


def test_a_row_has_seconds_with_a_kind_and_a_source_or_none_of_them() -> None:
    for row in ROWS:
        assert row.phase in PHASES
        figures = {row.low_s is not None, row.high_s is not None, bool(row.kind), bool(row.source)}
        assert figures in ({True}, {False}), f"{row}: a gap has no number, and a number has its source"
        assert row.kind in ("measured", "stated", "derived", ""), row
        assert row.note, row
        assert (row.low_s or 0) <= (row.high_s or 0)


def test_a_phase_spans_all_rows_of_its_means_and_names_their_sources() -> None:
    found = phase("register", "new")
    assert (found.low, found.high, len(found.sources)) == (20, 90, 3)
    assert str(found) == "20-90 s"
    assert (phase("plugin", "device-plugin").high, str(phase("plugin", "device-plugin"))) == (None, "not measured")
    with pytest.raises(KeyError, match="boot, horse"):
        phase("boot", "horse")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_has_a_row_for_the_boot_of_its_nodes(provider: str) -> None:
    assert phase("boot", PROVIDERS[provider].boots).name == "boot"


@pytest.mark.parametrize("stack", STACKS)
def test_every_class_of_every_stack_has_all_phases_in_their_order(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    found = list(starts(fleet, DAY))
    assert [(each.cluster, each.runner_set) for each in found] == [(name, held) for name, held, _ in fleet.runner_sets()]
    for each in found:
        for start in (each.cold, each.warm, *(held.start for held in each.ways)):
            assert tuple(held.name for held in start.phases) == PHASES


# -- what a job finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, NEW),
        ({"nodes": {"min": 1, "max": 2}}, READY),
        ({"placeholders": 1}, PLACEHOLDER),
        ({"warm": {"maxPrepared": 2}}, STOPPED),
        ({"warm": {"maxPrepared": 1}}, NEW),
        ({"warm": {"maxPrepared": 1}, "zones": ["us-west-2a"]}, STOPPED),
    ],
)
def test_a_job_finds_what_is_certain_to_be_there(changes: dict[str, Any], found: str) -> None:
    """One machine in one of two zones helps only if the autoscaler picks that zone."""
    assert in_pool(**changes).finds == found


def test_a_node_that_a_waiting_runner_of_another_class_holds_is_not_free() -> None:
    sets = {"gpu-t4": runner(), "other": runner(labels=["other"], scale={"min": 1, "max": 2})}
    held = of(cluster(pools={"t4": pool(nodes={"min": 1, "max": 2})}, runners=sets))
    assert held.finds == NEW
    assert way(held, READY).settings == {"pools.t4.nodes.min": 2}
    sets["gpu-t4"]["scale"] = {"min": 1, "max": 2}
    assert of(cluster(pools={"t4": pool(nodes={"min": 2, "max": 2})}, runners=sets)).finds == WAITING


def test_machines_of_oci_wait_if_they_are_booted_in_advance() -> None:
    standing, for_a_job = of(oke_cluster(runners={"a": vm()})), of(oke_cluster(runners={"a": vm_per_job()}))
    assert (standing.finds, for_a_job.finds) == (WAITING, NEW)
    assert 0 < standing.idle.usd < way(for_a_job, WAITING).more.usd, "a machine, and then its disk too"
    assert [each.settings for each in standing.ways] == [{}]
    assert for_a_job.cold.gaps == ("capacity", "boot", "driver", "pull")


def test_machines_of_your_own_are_always_ready_and_no_node_can_be_added() -> None:
    found = of(talos_cluster())
    assert (found.finds, found.cold.finds) == (READY, READY)
    assert found.cold.phases[4].high == 600, "the first job on a node pulls the image"
    assert [each.settings for each in found.ways] == [{}, {"runners.gpu-3090.scale.min": 1}]


# -- the image ---------------------------------------------------------------------------------------------------------


def test_the_size_of_the_image_and_the_disk_give_the_least_time_of_a_pull() -> None:
    settings = cluster(runners={"gpu-t4": runner(imageSize="25Gi")})
    pull = of(settings).cold.phases[4]
    assert pull.low == pytest.approx(25 * 1024 / 125), "the root disk writes 125 MiB/s"
    assert "25Gi at 125 MiB/s of the root disk (derived)" in pull.note
    assert in_pool().cold.phases[4].low == 0, "a small image may take no time"
    huge = of(cluster(runners={"gpu-t4": runner(imageSize="100Gi")})).cold.phases[4]
    assert huge.low == huge.high == pytest.approx(100 * 1024 / 125), "no published pull was that large"


def test_a_pull_to_local_disks_is_a_gap() -> None:
    local = {"instance": {"localStorage": {"strategy": "RAID0"}}}
    found = in_pool(instanceTypes=["g4dn.8xlarge"], nodeConfig=local)
    assert "pull" in found.cold.gaps
    assert "pull" in way(found, STOPPED).start.gaps, "a stopped machine keeps no image on its local disks"


# -- ways --------------------------------------------------------------------------------------------------------------


def test_a_way_costs_what_the_bill_of_its_settings_says() -> None:
    found = in_pool()
    now, _ = total(bill(load(config()), DAY))
    for held, changes in (
        (way(found, READY), {"nodes": {"min": 1, "max": 2}}),
        (way(found, PLACEHOLDER), {"placeholders": 1}),
        (way(found, STOPPED), {"warm": {"maxPrepared": 2}}),
    ):
        then, _ = total(bill(load(config(clusters={"usw2": cluster(pools={"t4": pool(**changes)})})), DAY))
        assert held.more.usd == pytest.approx(then.usd - now.usd), held.settings


@pytest.mark.parametrize(
    ("changes", "start", "reason"),
    [
        ({"capacity": "spot"}, STOPPED, "impossible: EC2 has no warm pools of spot machines"),
        (
            {"capacity": "reserved", "reservation": {"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 2}},
            STOPPED,
            "impossible: a reservation is paid whether its machines run or not",
        ),
        ({"sharing": {"strategy": "time-slicing", "replicas": 2}}, PLACEHOLDER, "impossible: a placeholder takes all GPUs"),
    ],
)
def test_settings_that_exclude_each_other_are_refused_with_the_reason(changes: dict[str, Any], start: str, reason: str) -> None:
    held = way(in_pool(**changes), start)
    assert held.misses(10**6).startswith(reason)


def test_no_node_that_boots_starts_within_30_seconds() -> None:
    found = in_pool()
    assert found.best(30) is None
    for held in found.ways:
        if held.start.finds in (NEW, STOPPED):
            assert held.misses(30) == "too slow: at least 100 s, of which boot 80 s"
    assert found.unshown(30) is way(found, WAITING)
    assert way(found, WAITING).misses(30) == "cannot be shown: register not measured"


def test_a_ready_node_is_the_cheapest_that_is_shown_within_120_seconds() -> None:
    found = in_pool()
    assert found.best(120) == way(found, READY)
    assert way(found, READY).start.condition == ", after a first job on the node"
    assert way(found, STOPPED).misses(10_000) == "cannot be shown: driver and plugin not measured", "cheaper, but never shown"


def test_a_waiting_runner_beside_a_placeholder_costs_a_node_of_its_own() -> None:
    found = in_pool(placeholders=1, nodes={"min": 0, "max": 3})
    assert way(found, WAITING).settings == {"runners.gpu-t4.scale.min": 1, "pools.t4.nodes.min": 2}
    assert way(found, WAITING).more == way(in_pool(nodes={"min": 0, "max": 3}), WAITING).more


def test_what_is_there_already_costs_nothing_more() -> None:
    best = in_pool(nodes={"min": 1, "max": 2}).best(120)
    assert best is not None
    assert (best.settings, best.more) == ({}, Money())


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
@given(configs())
def test_every_valid_fleet_has_starts(document: dict[str, Any]) -> None:
    fleet = load(document)
    found = list(starts(fleet, DAY))
    assert len(found) == len(list(fleet.runner_sets()))
    for each in found:
        assert each.ways[0].start.finds == each.finds
        assert each.ways[0].more == Money()
        assert not [way.settings for way in each.ways if way.more.usd < 0], "more readiness is never cheaper"


PHASE = st.tuples(st.integers(0, 300), st.none() | st.integers(0, 300)).map(
    lambda span: Phase("boot", 0, None, "") if span[1] is None else Phase("boot", span[0], span[0] + span[1], "")
)
WAY = st.builds(
    Way,
    st.just({}),
    st.builds(Start, st.just(NEW), st.lists(PHASE, max_size=4).map(tuple)),
    st.builds(Money, st.floats(0, 100), st.booleans(), st.integers(0, 1)),
    st.sampled_from(["", "", "no"]),
)


@given(st.lists(WAY, max_size=6), st.integers(1, 900))
def test_the_best_is_never_dearer_than_another_that_fits_and_never_has_a_gap(ways: list[Way], limit: int) -> None:
    none = Start(NEW, (done("boot"),))
    found = Starts("usw2", "gpu-t4", "pool t4", NEW, Money(), none, none, tuple(ways))
    fitting = [
        each
        for each in ways
        if not each.refused and not each.start.gaps and sum(held.high or 0 for held in each.start.phases) <= limit
    ]
    best = found.best(limit)
    assert (best is None) == (not fitting)
    if best is not None:
        assert best in fitting
        known = [each.more.usd for each in fitting if not each.more.unknown]
        assert not known or (not best.more.unknown and best.more.usd == min(known))
    unshown = found.unshown(limit)
    assert unshown is None or (unshown.start.gaps and not unshown.refused and unshown.misses(limit).startswith("cannot be shown"))


def test_all_settings_of_a_pool_stay_when_a_way_changes_one() -> None:
    held = pool(instanceTypes=["g4dn.8xlarge"], nodeConfig=NODE_CONFIG, labels={"example.com/team": "ml"}, disk="300Gi")
    more = way(of(cluster(pools={"t4": held})), READY).more.usd
    assert more == pytest.approx(2.176 + 300 * 0.08 / 730, abs=1e-3)
