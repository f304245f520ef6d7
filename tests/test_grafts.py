"""Settings of one fleet in another: what each stack file shows alone must also hold when features meet.

A graft takes any branch of a cluster of any stack file, example or full config, and puts it at the same place of a cluster of the
same provider in another. Names of pools and runner classes become those of that cluster. What loads must keep the rules below.
`make test` takes a few grafts, the same in every run; `make search` takes thousands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings, strategies as st

from fleet.facts.errors import FleetError
from fleet.facts.pricing import average, total
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.placement import PlacementError, place
from fleet.providers.fleet import Fleet
from fleet.providers.talos.boot.patch import talos_files
from fleet.providers.talos.cluster import TalosCluster
from tests.builders import read_stack
from tests.day import AS_OF
from tests.examples import SEARCHES
from tests.fleet.conformance import STACKS, contract, faults
from tests.policies.test_cost import assert_the_same, built
from tests.strategies import FULL, Path

SOURCES: dict[str, dict[str, Any]] = {
    **{name: read_stack(path) for name, path in STACKS.items()},
    **{f"full-{number}": document for number, document in enumerate(FULL)},
}
BY_PROVIDER: dict[str, list[tuple[str, str]]] = {}
for _name, _document in SOURCES.items():
    for _cluster, _settings in _document["clusters"].items():
        BY_PROVIDER.setdefault(_settings["provider"], []).append((_name, _cluster))
NAMED = {"pools", "runners", "jobs", "workloads", "caches", "amis", "teams", "flavors", "hosts", "windows"}
"""Keys whose own keys are names that the stack file chooses."""


def some(usual: int, many: int) -> settings:
    """So many examples: `usual` in each run, `many` in a search. Shrinking one takes long and says little: a graft is small."""
    return settings(
        max_examples=many if SEARCHES else usual,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if SEARCHES else [])),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def branch(draw: st.DrawFn, donor: Any) -> Path:
    """A path in a cluster's settings. It ends at each depth with the same chance, so small keys come as often as large ones."""
    path: list[str | int] = []
    while isinstance(donor, dict | list) and donor and not (path and path[-1] not in NAMED and draw(st.booleans())):
        step: Any = draw(st.sampled_from(sorted(donor) if isinstance(donor, dict) else range(len(donor))))
        path.append(step)
        donor = donor[step]
    return tuple(path)


def graft(draw: st.DrawFn, host: dict[str, Any], donor: Any, path: Path) -> None:
    """Put what the donor has at a path into the host; where the host lacks a step, the whole branch from there."""
    here: Any = host
    for depth, name in enumerate(path):
        donor, last, step = donor[name], depth == len(path) - 1, name
        if isinstance(here, list) and not (isinstance(step, int) and step < len(here)):
            here.append(copy.deepcopy(donor))
            return
        if isinstance(here, dict) and step not in here and here and not last and depth and path[depth - 1] in NAMED:
            step = draw(st.sampled_from(sorted(here)))
        if last or (isinstance(here, dict) and step not in here) or not isinstance(here[step], dict | list):
            here[step] = copy.deepcopy(donor)
            return
        here = here[step]


def rename(draw: st.DrawFn, settings: dict[str, Any]) -> None:
    """Let classes, workloads and jobs that came with a graft name pools that the cluster has."""
    pools = sorted(settings.get("pools", {}))
    for kind in ("runners", "workloads", "jobs"):
        for held in settings.get(kind, {}).values() if pools else ():
            if isinstance(held, dict) and held.get("pool", pools[0]) not in pools:
                held["pool"] = draw(st.sampled_from(pools))
            if isinstance(held, dict) and not set(held.get("pools", pools)) <= set(pools):
                held["pools"] = draw(st.lists(st.sampled_from(pools), min_size=1, unique=True))


def resize(draw: st.DrawFn, settings: dict[str, Any]) -> None:
    """Give some pools and classes a small size: at their limits features contradict each other that count the same nodes."""
    for kind, key in (("pools", "nodes"), ("runners", "scale")):
        for held in settings.get(kind, {}).values():
            if isinstance(held, dict) and isinstance(held.get(key), dict) and "max" in held[key] and draw(st.booleans()):
                least = draw(st.integers(0, 2))
                held[key] = {"min": least, "max": draw(st.integers(max(least, 1), 4))}


@st.composite
def grafts(draw: st.DrawFn) -> Fleet:
    """A fleet that loads, with one to three grafts."""
    name = draw(st.sampled_from(sorted(SOURCES)))
    document = copy.deepcopy(SOURCES[name])
    for _ in range(draw(st.integers(1, 3))):
        host = document["clusters"][draw(st.sampled_from(sorted(document["clusters"])))]
        source, cluster = draw(st.sampled_from(BY_PROVIDER[host["provider"]]))
        path = branch(draw, SOURCES[source]["clusters"][cluster])
        graft(draw, host, SOURCES[source]["clusters"][cluster], path)
        rename(draw, host)
        resize(draw, host)
        note(f"{name}: {source} {cluster} {'.'.join(map(str, path))}")
    try:
        fleet = load(document)
        require(fleet, place(fleet))
    except (FleetError, PlacementError):
        assume(False)
        raise
    return fleet


def broken(fleet: Fleet) -> Iterator[str]:
    """What of a fleet contradicts itself."""
    lines = bill(fleet, AS_OF)
    for name, cluster in fleet.clusters_by_name():
        for pool in cluster.pools:
            # Of each pool: a sum over all would hide what a small one counts twice.
            paid = [line for line in lines if line.cluster == name and line.item in (f"pool {pool}", f"warm pool {pool}")]
            idle, worst = total(paid)
            if not worst.unknown and idle.usd > worst.usd + 1e-9:
                yield f"{name}: an idle hour of pool {pool} costs {idle.usd:.4f}, the worst {worst.usd:.4f}"
        yield from (f"{name}: {fault}" for fault in faults(contract(fleet, name)))
    idle, worst = total(lines)
    if not worst.unknown and not idle.usd - 1e-9 <= average(lines).usd <= worst.usd + 1e-9:
        yield f"an hour costs {idle} idle, {average(lines)} on average, {worst} at worst"
    for name, cluster in fleet.clusters_by_name():
        if isinstance(cluster, TalosCluster):
            texts = talos_files(name, cluster)
            yield from (f"{name}: {path} is empty" for path, text in texts.items() if not text.strip())


@pytest.mark.timeout(0 if SEARCHES else 120)
@some(60, 5000)
@given(grafts())
def test_what_loads_has_a_bill_a_place_and_nodes_that_take_their_pods_and_no_others(fleet: Fleet) -> None:
    classes = {(name, runner_set) for name, cluster in fleet.clusters.items() for runner_set in cluster.runners}
    assert {(found.cluster, found.runner_set) for found in place(fleet)} == classes
    assert list(broken(fleet)) == []


@pytest.mark.timeout(0 if SEARCHES else 120)
@some(4, 400)
@given(grafts())
def test_what_loads_is_built_and_policies_count_its_price_as_the_plan_does(fleet: Fleet) -> None:
    assume(not any(found.error for found in place(fleet)))
    assert_the_same(fleet, built(fleet))
