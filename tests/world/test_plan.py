"""The plan against the world: where runners land, which pool comes first, how many nodes, the worst hour.

`outcomes.json` has what a real scheduler and a real Cluster Autoscaler did with random fleets. The plan must agree without them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.facts.hardware import Machine
from fleet.facts.offer import Offer, for_runners
from fleet.prove import placement
from fleet.prove.placement import Host, Placement, node_price
from fleet.render.sweeps.api import Object
from fleet.settings.cluster import Cluster
from gpu_ci.world.parts import find
from tests.cases import cases
from tests.world import batches, fleets
from tests.world.fleets import Sample, Seen, differences, expected, recorded, replayed, samples

OUTCOMES = Path(__file__).with_name("outcomes.json")
COUNT, SEED = int(os.environ.get("GPU_CI_WORLD_FLEETS", "100")), 35
_RENEW = "GPU_CI_RENEW"
_LOADED: list[tuple[Sample, Seen]] = []


def outcomes() -> list[tuple[Sample, Seen]]:
    """The recorded fleets, with what they had in the end."""
    if not _LOADED:
        _LOADED.extend(map(replayed, json.loads(OUTCOMES.read_text(encoding="utf-8"))["fleets"]))
    return _LOADED


def disagreements() -> Iterator[str]:
    for sample, world in outcomes():
        yield from differences(sample, expected(sample), world)


def test_the_plan_agrees_with_the_recorded_world() -> None:
    assert not [*disagreements()]


def test_the_recorded_fleets_show_what_the_plan_decides() -> None:
    kinds = {
        "several pools": lambda sample, world: len({pool for _, pool in world.runners}) > 1 and len(sample.asked) == 1,
        "a shared GPU": lambda sample, world: any(sample.cluster.pools[pool].sharing for _, pool in world.runners),
        "no GPU": lambda sample, world: any(not sample.cluster.pools[pool].has_gpus for _, pool in world.runners),
        "spot": lambda sample, world: any(sample.cluster.pools[pool].capacity == "spot" for _, pool in world.runners),
        "two machine types": lambda sample, world: any(len(types) > 1 for types in world.nodes.values()),
        "nodes that always run": lambda sample, world: any(pool.nodes.min for pool in sample.cluster.pools.values()),
        "nothing runs": lambda sample, world: not world.runners,
    }
    missing = [kind for kind, has in kinds.items() if not any(has(*outcome) for outcome in outcomes())]
    assert not missing


def test_a_world_that_departs_from_the_plan_is_noticed() -> None:
    for sample, world in outcomes():
        plan = expected(sample)
        for pool, (_, most) in plan.nodes.items():
            machine = sample.cluster.pools[pool].instance_types[0]
            assert differences(sample, plan, Seen({**world.nodes, pool: {machine: most + 1}}, world.runners))
        for key, (_, most) in plan.runners.items():
            assert differences(sample, plan, Seen(world.nodes, {**world.runners, key: most + 1}))
        if any(least for least, _ in plan.runners.values()):
            assert differences(sample, plan, Seen(world.nodes, {}))


# -- faults in the plan's model --------------------------------------------------------------------------------------------

Fault = Callable[[pytest.MonkeyPatch], None]


def _offers(change: Callable[[Machine, int, Offer], Offer]) -> Fault:
    """Another idea of what a node offers to runners."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(
            placement, "for_runners", lambda machine, disk, pods: change(machine, disk, for_runners(machine, disk, pods))
        )

    return plant


def _hosts(change: Callable[[Host], Host]) -> Fault:
    """Another idea of a pool's nodes."""
    real = placement.pool_hosts

    def hosts(settings: Cluster) -> dict[str, Host]:
        return {name: change(host) for name, host in real(settings).items()}

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(placement, "pool_hosts", hosts)
        patch.setattr(fleets, "pool_hosts", hosts)

    return plant


def _without_order(patch: pytest.MonkeyPatch) -> None:
    real = Placement.choice.fget  # type: ignore[attr-defined] # a property
    patch.setattr(Placement, "choice", property(lambda one: -real(one)))


def _without_a_limit(name: str) -> Fault:
    real = placement._rooms

    def plant(patch: pytest.MonkeyPatch) -> None:
        def rooms(*asked: object) -> dict[str, int]:
            return {key: room for key, room in real(*asked).items() if key != name}  # type: ignore[arg-type] # as it came

        patch.setattr(placement, "_rooms", rooms)

    return plant


def _without_shares(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Host, "units", lambda _, machine: machine.gpus)


def _cheapest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleets, "node_price", lambda settings, host: node_price(settings, host).times(0.9))


FAULTS: dict[str, Fault] = {
    "kubelet keeps no CPU": _offers(lambda machine, _, one: replace(one, cpu=machine.vcpus * 1000)),
    "a machine has the memory that it is sold with": _offers(lambda machine, _, one: replace(one, memory=machine.memory_mib)),
    "a pod gets the whole disk": _offers(lambda _, disk, one: replace(one, storage=disk)),
    "GPUs do not limit": _without_a_limit("GPUs"),
    "the disk does not limit": _without_a_limit("disk"),
    "a shared GPU counts once": _without_shares,
    "the last pool comes first": _without_order,
    "a pool has one node more": _hosts(lambda host: replace(host, count=host.count + 1)),
    "a pool has one node fewer": _hosts(lambda host: replace(host, count=host.count - 1)),
    "only the first machine type counts": _hosts(lambda host: replace(host, machines=host.machines[:1])),
    "a node costs a tenth less": _cheapest,
}


@cases("name", FAULTS)
def test_a_fault_in_the_model_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        FAULTS[name](patch)
        assert [*disagreements()]


# -- the world itself ------------------------------------------------------------------------------------------------------


@pytest.mark.world
@pytest.mark.timeout(120 + 3 * COUNT)
def test_the_plan_agrees_with_the_world(tmp_path: Path) -> None:
    parts = find()
    if missing := [name for name in batches.NEEDED if name not in parts]:
        pytest.skip(f"not on PATH: {', '.join(missing)}")
    seen = [*batches.run(samples(COUNT, SEED), parts, tmp_path)]
    wrong = [text for sample, world in seen for text in differences(sample, expected(sample), world)]
    if os.environ.get(_RENEW) and not wrong:
        versions = {name: version for name, version in parts.versions().items() if name in batches.NEEDED}
        write(OUTCOMES, versions, [recorded(*one) for one in seen])
    # Two of a thousand may differ: the autoscaler sees nodes and pods of slightly different times.
    assert len({text.partition(":")[0] for text in wrong}) <= COUNT * 2 // 1000, "\n".join(wrong)


def write(path: Path, versions: dict[str, str], entries: list[Object]) -> None:
    """Write the record: one line for each fleet."""
    lines = ",\n".join(json.dumps(entry, sort_keys=True) for entry in entries)
    path.write_text(f'{{"seed": {SEED}, "versions": {json.dumps(versions)}, "fleets": [\n{lines}\n]}}\n', encoding="utf-8")
