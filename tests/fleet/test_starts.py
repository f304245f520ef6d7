"""How long starts take: figures with sources, gaps that stay gaps."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fleet.loading.config import load
from fleet.prove.start import JOB_PHASES, PHASES, Start, Starts, starts
from fleet.providers.phases import NEW, PLACEHOLDER, READY, ROWS, STOPPED, WAITING, phase, prepare_timeout
from fleet.providers.registry import PROVIDERS
from tests.builders import cluster, config, oke_cluster, pool, read_stack, runner, talos_cluster, vm, vm_per_job
from tests.cases import cases
from tests.examples import WHOLE, examples
from tests.fleet.conformance import STACKS
from tests.strategies import configs

DAY = date(2026, 11, 23)


def of(settings: dict[str, Any]) -> Starts:
    """The starts of the first runner class of a cluster."""
    return next(starts(load(config(clusters={"usw2": settings})), DAY))


def in_pool(**changes: Any) -> Starts:
    """The starts of a runner class whose pool has these changes."""
    return of(cluster(pools={"t4": pool(**changes)}))


# -- figures -----------------------------------------------------------------------------------------------------------


def test_a_row_has_seconds_with_a_kind_and_a_source_or_none_of_them() -> None:
    for row in ROWS:
        assert row.phase in (*PHASES, "copy")
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


@cases("provider", PROVIDERS)
def test_every_provider_has_a_row_for_the_boot_of_its_nodes(provider: str) -> None:
    assert phase("boot", PROVIDERS[provider].boots).name == "boot"


@cases("stack", STACKS)
def test_every_class_of_every_stack_has_all_phases_in_their_order(stack: str) -> None:
    fleet = load(read_stack(STACKS[stack]))
    found = list(starts(fleet, DAY))
    assert [(each.cluster, each.runner_set) for each in found] == [(name, held) for name, held, _ in fleet.runner_sets()]
    for each in found:
        for start in (each.cold, each.warm):
            both = fleet.clusters[each.cluster].runners[each.runner_set].needs_container
            assert tuple(held.name for held in start.phases) == (PHASES + JOB_PHASES if both else PHASES)


# -- what a job finds --------------------------------------------------------------------------------------------------


@cases(
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
    sets["gpu-t4"]["scale"] = {"min": 1, "max": 2}
    assert of(cluster(pools={"t4": pool(nodes={"min": 2, "max": 2})}, runners=sets)).finds == WAITING


def test_machines_of_oci_wait_if_they_are_booted_in_advance() -> None:
    standing, for_a_job = of(oke_cluster(runners={"a": vm()})), of(oke_cluster(runners={"a": vm_per_job()}))
    assert (standing.finds, for_a_job.finds) == (WAITING, NEW)
    assert standing.idle.usd > for_a_job.idle.usd == 0
    assert for_a_job.cold.gaps == ("capacity", "boot", "driver", "pull")


def test_machines_of_your_own_are_always_ready() -> None:
    found = of(talos_cluster())
    assert (found.finds, found.cold.finds) == (READY, READY)
    assert found.cold.phases[4].high == 600, "the first job on a node pulls the image"


@cases(
    ("changes", "waits"),
    [
        ({}, (30, 40)),
        ({"sharing": {"strategy": "time-slicing", "replicas": 2, "rename": False}}, (30, 40)),
        ({"sharing": {"strategy": "time-slicing", "replicas": 2, "rename": True}}, (2, 12)),
    ],
)
def test_the_autoscaler_waits_longer_for_pods_whose_gpus_it_knows(changes: dict[str, Any], waits: tuple[int, int]) -> None:
    capacity = in_pool(**changes).cold.phases[0]
    assert (capacity.name, capacity.low, capacity.high) == ("capacity", *waits)


# -- jobs in containers ------------------------------------------------------------------------------------------------

CPU = {"instanceTypes": ["m6i.2xlarge"], "capacity": "on-demand", "role": "burst", "nodes": {"max": 2}}


def in_container(runner_changes: dict[str, Any] | None = None, **changes: Any) -> Starts:
    """The starts of a class whose jobs run in containers, and whose GPU pool has these changes."""
    sets = {"gpu-t4": runner(containers="job", **(runner_changes or {}))}
    return of(cluster(pools={"t4": pool(**changes), "cpu": CPU}, runners=sets))


def seconds_of(start: Start) -> dict[str, float | None]:
    """The most seconds of each phase."""
    return {part.name: part.high for part in start.phases}


def test_the_pod_of_a_job_in_a_container_starts_after_that_of_its_runner() -> None:
    starts_of = in_container({"runnerPool": "cpu"})
    assert tuple(part.name for part in starts_of.cold.phases) == PHASES + JOB_PHASES
    cold, warm = seconds_of(starts_of.cold), seconds_of(starts_of.warm)
    assert (cold["boot"], cold["driver"], cold["job-boot"], cold["job-pull"]) == (120, 0, 120, 600)
    assert starts_of.cold.gaps == ("pull", "job-driver", "job-plugin", "job-copy"), "the sum is a lower bound"
    assert starts_of.cold.high == 12 + 120 + 90 + 40 + 120 + 600
    assert (warm["boot"], warm["pull"], warm["job-boot"], warm["job-pull"]) == (0, 0, 0, 0), "an earlier job was there"


def test_runners_on_the_system_pool_need_no_new_node() -> None:
    cold = seconds_of(in_container().cold)
    assert (cold["capacity"], cold["boot"], cold["pull"], cold["job-boot"]) == (1, 0, None, 120)


def test_a_runner_that_waits_holds_no_gpu_for_its_job_in_a_container() -> None:
    waiting = in_container({"scale": {"min": 1, "max": 2}})
    assert (waiting.finds, waiting.cold.finds) == (NEW, NEW)
    assert seconds_of(waiting.warm)["register"] is None, "GitHub gives the job to a runner that waits"
    standing = in_container({"scale": {"min": 2, "max": 2}}, nodes={"min": 1, "max": 2})
    assert standing.finds == READY, "the waiting runners are not on the node"


def test_a_placeholder_has_not_pulled_the_image_that_a_workflow_names() -> None:
    found = in_container(placeholders=1)
    assert (found.finds, seconds_of(found.warm)["job-boot"], seconds_of(found.warm)["job-pull"]) == (PLACEHOLDER, 0, 600)


def test_the_pool_of_the_runners_costs_while_no_job_runs() -> None:
    sets = {"gpu-t4": runner(containers="job", runnerPool="cpu")}
    pools = {"t4": pool(), "cpu": CPU | {"nodes": {"min": 1, "max": 2}}}
    assert of(cluster(pools=pools, runners=sets)).idle.usd > in_container({"runnerPool": "cpu"}).idle.usd == 0


@cases(
    ("runner_changes", "pool_changes", "expected"),
    [
        ({}, {}, 1560),
        ({"imageSize": "100Gi"}, {}, 1980),
        ({"maxLifetime": "20m"}, {}, 1200),
        ({}, {"instanceTypes": ["g4dn.8xlarge"], "nodeConfig": {"instance": {"localStorage": {"strategy": "RAID0"}}}}, 600),
    ],
)
def test_a_runner_waits_twice_the_longest_start_of_its_job(
    runner_changes: dict[str, Any], pool_changes: dict[str, Any], expected: int
) -> None:
    """2 x (40 + 120 + 600) s is 1520 s, which is 26 minutes; 100 GiB take 819 s. The lifetime of the runner is the most."""
    sets = {"gpu-t4": runner(containers="job", **runner_changes)}
    loaded = load(config(clusters={"usw2": cluster(pools={"t4": pool(**pool_changes)}, runners=sets)})).clusters["usw2"]
    assert prepare_timeout(loaded, loaded.pod_runners["gpu-t4"]) == expected


def test_a_runner_also_waits_while_the_autoscaler_gives_up_the_first_pool() -> None:
    sets = {"gpu-t4": runner(containers="job", pools=["t4", "second"])}
    loaded = load(config(clusters={"usw2": cluster(pools={"t4": pool(), "second": pool()}, runners=sets)})).clusters["usw2"]
    assert prepare_timeout(loaded, loaded.pod_runners["gpu-t4"]) == 3960, "2 x (20 min + 760 s) in whole minutes"


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


@settings(max_examples=examples(20, WHOLE), suppress_health_check=[HealthCheck.too_slow])
@given(configs())
def test_every_valid_fleet_has_starts(document: dict[str, Any]) -> None:
    fleet = load(document)
    found = list(starts(fleet, DAY))
    assert len(found) == len(list(fleet.runner_sets()))
    for each in found:
        assert each.finds in (each.warm.finds, NEW)
        assert each.idle.usd >= 0
