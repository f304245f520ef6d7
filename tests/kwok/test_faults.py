"""A hundred faults of eight kinds: each node is healed or out of use within ten minutes.

The same faults run twice: against an API in memory in every test run, and against a real API server with kwok if the programs
are on PATH.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.loading.config import load
from fleet.render.sweeps.sweep import quarantine
from tests import builders
from tests.conftest import SUMMARY
from tests.kwok.memory import MemoryApi
from tests.kwok.server import api_server, missing
from tests.kwok.world import BEHAVIOUR, MINUTE, SICK, World, fill, keys_of, strike_all, table

TYPES = {"t4": "g4dn.2xlarge", "a10": "g5.12xlarge", "a100": "p4d.24xlarge"}
POOLS = {"t4": (10, 1), "a10": (10, 4), "a100": (10, 8)}
"""Nodes and GPUs of each."""


def settings() -> dict[str, Any]:
    """The settings of the sweep, as a cluster with these pools installs it."""
    pools = {name: builders.pool(instanceTypes=[machine], nodes={"max": 10}) for name, machine in TYPES.items()}
    changes = {"pools": pools, "health": {"startupGate": True}}
    cluster = load(builders.config(clusters={"usw2": builders.cluster(**changes)})).clusters["usw2"]
    found: dict[str, Any] = json.loads(json.dumps(quarantine(cluster).settings))
    return found


def world(api: Any, swept: bool = True) -> World:
    return World(api, settings() if swept else None, POOLS, random.Random(20261123))  # noqa: S311 - the same faults in every run


def prove(found: World, record: Callable[[str, object], None]) -> None:
    fill(found)
    strike_all(found, 100, 72)
    page = (builders.ROOT / "docs/node-health.md").read_text(encoding="utf-8")
    for line in table(found):
        record(SUMMARY, line)
        assert line in page, "the page has other results"
    healed = f"Repaired nodes waited another {found.wasted['healthy, still in quarantine'] / 3600:.1f} GPU hours"
    total = f"{sum(found.wasted.values()) / 3600:.1f}"
    assert f"{healed} for the end of their quarantine: {total} in all." in page
    record(SUMMARY, f"100 faults of {len(BEHAVIOUR)} kinds, {total} wasted GPU hours; {dict(found.repairs)}")
    kinds = Counter(each.kind for each in found.faults)
    assert sum(kinds.values()) == 100
    assert kinds.keys() == BEHAVIOUR.keys()
    assert min(kinds.values()) >= 12
    late = [each for each in found.faults if not each.ended or each.ended - each.began > 10 * MINUTE]
    assert late == []
    assert len(found.machines) == 30, "each machine that left was replaced"
    assert not any(keys_of(found.api, each) for each in found.machines.values()), "the fleet is whole again"
    assert 0 < sum(found.wasted.values()) / 3600 < 200


def test_a_hundred_faults_are_healed_or_out_of_use_within_ten_minutes(record_property: Callable[[str, object], None]) -> None:
    prove(world(MemoryApi()), record_property)


@pytest.mark.kwok
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")
def test_the_same_faults_against_an_api_server_with_kwok(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with api_server(tmp_path) as api:
        prove(world(api), record_property)


@pytest.mark.parametrize("kind", BEHAVIOUR)
def test_without_the_sweep_no_kind_is_out_of_use_in_ten_minutes_except_those_that_others_see(kind: str) -> None:
    found = world(MemoryApi(), swept=False)
    fill(found)
    while not found.strike(kind):
        pass
    for _ in range(10):
        found.step()
    (fault,) = found.faults
    assert bool(fault.ended) == (kind == "kubelet silent"), "Kubernetes taints a silent node, and nothing else is as fast"


def test_a_plugin_that_restarts_and_a_job_that_breaks_its_own_memory_quarantine_nothing() -> None:
    found = world(MemoryApi())
    fill(found)
    restarts, crashes = list(found.machines.values())[:2]
    restarts.gpus, crashes.error = 0, "NvidiaXID31Error"
    found.report(crashes)
    for _ in range(2):
        found.report(restarts)
        found.step()
    restarts.gpus = restarts.units
    found.report(restarts)
    for _ in range(30):
        found.step()
    assert not any(keys_of(found.api, each) & SICK for each in found.machines.values())
    assert found.repairs == {}
