"""Runner classes with several pools: the pod, the placement in each pool, and how many run at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import example, given, strategies as st

from fleet.facts.flow import most_runners, taken
from fleet.facts.pricing import range_text
from fleet.facts.scheduling import POOL_LABEL, PREEMPTING_PRIORITY, RUNNER_PRIORITY, node_choice
from fleet.jobs.stack import require
from fleet.loading.config import load
from fleet.prove.bill import runner_hour
from fleet.prove.placement import PlacementError, overbooked, place
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set, pod_set_of, pool_target, runner_prices
from tests.builders import ROOT, cluster, config, oke_cluster, oke_pool, oke_runner, pool, read_stack, runner

RESERVED = pool(
    capacity="reserved", reservation={"id": "cr-01234567", "zone": "us-west-2a", "count": 1}, nodes={"min": 1, "max": 1}
)
SPOT = pool(capacity="spot", instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"], nodes={"max": 4})
FALLBACK = pool(role="fallback", nodes={"max": 3})
THREE = {"reserved": RESERVED, "spot": SPOT, "ondemand": FALLBACK}
ORDER = ["reserved", "spot", "ondemand"]


def _fleet(sets: Mapping[str, Any], pools: Mapping[str, Any] = THREE, **changes: Any) -> Fleet:
    return load(config(clusters={"usw2": cluster(pools=dict(pools), runners=dict(sets), **changes)}))


def _spec(fleet: Fleet, name: str = "gpu") -> dict[str, Any]:
    settings = fleet.clusters["usw2"]
    found: dict[str, Any] = pod_set(settings, name, settings.runners[name], fleet.github).values["template"]["spec"]
    return found


# -- the pod -----------------------------------------------------------------------------------------------------------


def test_a_class_with_one_pool_has_a_node_selector() -> None:
    for choice in ({"pool": "spot"}, {"pools": ["spot"]}):
        spec = _spec(_fleet({"gpu": runner(**choice)}, {"spot": SPOT}))
        assert spec["nodeSelector"] == {POOL_LABEL: "spot"}
        assert "affinity" not in spec


def test_a_class_with_several_pools_requires_one_of_them_and_prefers_the_first() -> None:
    spec = _spec(_fleet({"gpu": runner(pools=ORDER)}))
    assert "nodeSelector" not in spec
    affinity = spec["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": ORDER}]}]
    }
    preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [(each["weight"], each["preference"]["matchExpressions"][0]["values"]) for each in preferred] == [
        (100, ["reserved"]),
        (51, ["spot"]),
    ], "the last pool needs no preference"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
    kubernetes_validate.validate(pod, "1.33", strict=True)


@given(st.integers(2, 60))
def test_the_weights_fall_and_are_within_the_range_of_kubernetes(count: int) -> None:
    made = node_choice([{POOL_LABEL: f"pool-{index}"} for index in range(count)])
    weights = [each["weight"] for each in made["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]]
    assert weights == sorted(set(weights), reverse=True)
    assert len(weights) == count - 1
    assert 1 <= min(weights) <= max(weights) == 100


def test_nodes_with_other_labels_are_one_term_each() -> None:
    made = node_choice([{"team": "ci", "gpu": "t4"}, {"gpu": "a10g"}])["affinity"]["nodeAffinity"]
    terms = made["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [[(each["key"], each["values"]) for each in term["matchExpressions"]] for term in terms] == [
        [("team", ["ci"]), ("gpu", ["t4"])],
        [("gpu", ["a10g"])],
    ], "a node must match one term whole"


def test_a_runner_tolerates_the_taints_of_all_its_pools() -> None:
    pools = {"v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot"), "a10": oke_pool()}
    held = {name: oke_runner(pools=order) for name, order in (("one", ["a10"]), ("both", ["a10", "v100"]))}
    settings = load(config(clusters={"sjc": oke_cluster(pools=pools, runners=held)})).clusters["sjc"]
    keys = {name: [each.key for each in pool_target(settings, *settings.runners[name].ordered).tolerations] for name in held}
    assert keys == {"one": ["nvidia.com/gpu"], "both": ["nvidia.com/gpu", "oci.oraclecloud.com/oke-is-preemptible"]}


def test_a_runner_may_end_placeholders_of_any_of_its_pools() -> None:
    for order, priority in ((["a", "b"], PREEMPTING_PRIORITY), (["b"], RUNNER_PRIORITY)):
        sets = {"gpu": runner(pools=order), "other": runner(pool="a")}
        fleet = _fleet(sets, {"b": pool(), "a": pool(placeholders=1)})
        settings = fleet.clusters["usw2"]
        assert pod_set_of(settings, "gpu", settings.runners["gpu"], fleet.github).priority_class == priority.name


@pytest.mark.usefixtures("numbers")
def test_the_price_of_a_runner_is_a_range_over_all_its_pools() -> None:
    settings = _fleet({"gpu": runner(pools=ORDER)}).clusters["usw2"]
    assert range_text(runner_prices(settings, settings.runners["gpu"])) == "0-1.204", (
        "a spot price is only known to be at most that of on demand"
    )
    sets = {"gpu": runner(pools=["small", "large"])}
    settings = _fleet(sets, {"small": pool(), "large": pool(instanceTypes=["g5.2xlarge"])}).clusters["usw2"]
    assert range_text(runner_prices(settings, settings.runners["gpu"])) == "0.752-1.212"


# -- placement ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("numbers")
def test_every_pool_of_a_class_is_placed_and_priced_in_order() -> None:
    found = place(_fleet({"gpu": runner(pools=ORDER)}))
    assert [(each.choice, each.host.name, each.capacity, each.error) for each in found] == [
        (1, "reserved", 1, ""),
        (2, "spot", 4, ""),
        (3, "ondemand", 3, ""),
    ]
    assert [tuple(map(str, runner_hour(each, "us-west-2"))) for each in found] == [
        ("0.752", "0.752"),
        ("≤0.752", "≤1.204"),
        ("0.752", "0.752"),
    ]


@pytest.mark.usefixtures("numbers")
def test_a_class_that_one_of_its_pools_cannot_hold_is_refused_by_the_pools_name() -> None:
    small = {"large": pool(), "small": pool(instanceTypes=["g4dn.xlarge"])}
    fleet = _fleet({"gpu": runner(pools=["large", "small"])}, small)
    with pytest.raises(PlacementError) as caught:
        require(fleet, place(fleet))
    assert str(caught.value) == (
        "usw2.runners.gpu: pool small: asks for 4 CPU and 16Gi, g4dn.xlarge leaves pods 3710m of 4 and 14351Mi of 16Gi; the "
        "smallest type that is large enough is g4dn.2xlarge"
    )


def test_an_image_that_one_of_the_pools_cannot_run_is_refused_by_the_pools_name() -> None:
    image = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci/runner-gpu:cuda12.1-ubuntu22.04-devel-0123abc"
    pools = {"t4": pool(), "b300": pool(instanceTypes=["p6-b300.48xlarge"])}
    errors = [each.error for each in place(_fleet({"gpu": runner(pools=["t4", "b300"], image=image)}, pools))]
    assert errors[0] == ""
    assert errors[1].startswith("pool b300: its image has or builds code for compute capability 9.0 and older")


# -- how many at once --------------------------------------------------------------------------------------------------


def _lines(sets: Mapping[str, Any], pools: Mapping[str, Any] = THREE) -> list[str]:
    return list(overbooked(place(_fleet(sets, pools))))


def test_pools_of_one_class_are_added_up() -> None:
    assert _lines({"gpu": runner(pools=ORDER, scale={"max": 8})}) == []
    assert _lines({"gpu": runner(pools=ORDER, scale={"max": 9})}) == [
        "usw2/reserved + spot + ondemand: 9 gpu runners, and the pools hold at most 8 at the same time: jobs beyond that wait, "
        "and no other set gets them; lower scale.max of gpu to 8"
    ]


def test_a_shared_pool_is_counted_once() -> None:
    pools = {name: pool(nodes={"max": 2}) for name in ("a", "b", "c")}
    sets = {"one": runner(pools=["a", "b"], scale={"max": 3}), "two": runner(pools=["b", "c"], scale={"max": 3})}
    assert _lines(sets, pools) == []
    sets["two"] = runner(pool="b", scale={"max": 2})
    assert _lines(sets, {name: pools[name] for name in "ab"}) == [
        "usw2/a + b: 3 one + 2 two runners, and the pools hold at most 4 at the same time: jobs beyond that wait"
    ]


_NAMES = ("a", "b", "c")
_LISTS = [tuple(each) for size in (1, 2, 3) for each in itertools.permutations(_NAMES, size)]
_SETS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(_LISTS)), min_size=1, max_size=3)
_SIZES = st.fixed_dictionaries({name: st.integers(0, 3) for name in _NAMES})


def _most_by_hand(sets: list[tuple[int, tuple[str, ...]]], slots: Mapping[str, int]) -> int:
    """The most runners of equal size at once, by trying every pool for every runner."""
    best = 0
    runners = [pools for most, pools in sets for _ in range(most)]
    for chosen in itertools.product(*((*pools, None) for pools in runners)):
        counts = {name: chosen.count(name) for name in slots}
        if all(counts[name] <= slots[name] for name in slots):
            best = max(best, sum(counts.values()))
    return best


def _most_together(sets: Mapping[str, tuple[int, tuple[str, ...]]], room: Mapping[str, int]) -> int:
    """The most that the sets get together, by the smallest cut: some sets get their demand, the others fill their pools."""
    cuts = (chosen for size in range(len(sets) + 1) for chosen in itertools.combinations(sets, size))
    return min(
        sum(most for name, (most, _) in sets.items() if name not in chosen)
        + sum(room[pool] for pool in {pool for name in chosen for pool in sets[name][1]})
        for chosen in cuts
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(_LISTS)), min_size=3, max_size=5), _SIZES)
@example([(2, ("a", "b", "c")), (2, ("a",)), (2, ("a",))], {"a": 2, "b": 2, "c": 2})
def test_each_set_gets_the_most_that_is_possible_beside_the_earlier_ones(
    rows: list[tuple[int, tuple[str, ...]]], room: dict[str, int]
) -> None:
    sets = {str(number): row for number, row in enumerate(rows)}
    demand = {name: Fraction(most) for name, (most, _) in sets.items()}
    sizes, pools = {name: Fraction(size) for name, size in room.items()}, {name: usable for name, (_, usable) in sets.items()}
    sums = [_most_together(dict(itertools.islice(sets.items(), count)), room) for count in range(len(sets) + 1)]
    assert [*taken(demand, sizes, pools).values()] == [after - before for before, after in itertools.pairwise(sums)]


@given(_SETS, _SIZES, st.fixed_dictionaries({name: st.integers(1, 2) for name in _NAMES}))
@example([(4, ("a", "b")), (2, ("b",))], {"a": 2, "b": 2, "c": 0}, {"a": 1, "b": 1, "c": 1})
def test_for_runners_of_equal_size_the_bound_is_what_trying_every_pool_finds(
    sets: list[tuple[int, tuple[str, ...]]], nodes: dict[str, int], holds: dict[str, int]
) -> None:
    sets = [(min(most, 5 // len(sets)), pools) for most, pools in sets]
    found = most_runners(
        {str(index): most for index, (most, _) in enumerate(sets)},
        nodes,
        {(str(index), pool): holds[pool] for index, (_, pools) in enumerate(sets) for pool in pools},
    )
    assert found == _most_by_hand(sets, {name: nodes[name] * holds[name] for name in nodes})


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 2, 4])), min_size=2, max_size=2),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_for_runners_of_different_size_the_bound_is_never_too_small(sets: list[tuple[int, int]], first: int, second: int) -> None:
    """Nodes have four GPUs. Every way to put the runners on the nodes is within the bound."""
    found = most_runners(
        {str(index): most for index, (most, _) in enumerate(sets)},
        {"a": first, "b": second},
        {(str(index), pool): 4 // gpus for index, (_, gpus) in enumerate(sets) for pool in "ab"},
    )
    sizes = [gpus for most, gpus in sets for _ in range(most)]
    for chosen in itertools.product(range(-1, first + second), repeat=len(sizes)):
        loads = [sum(size for size, node in zip(sizes, chosen, strict=True) if node == each) for each in range(first + second)]
        if all(load <= 4 for load in loads):
            assert sum(node >= 0 for node in chosen) <= found


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2, 4]), st.sampled_from(_LISTS)), min_size=1, max_size=3),
    _SIZES,
    st.fixed_dictionaries({name: st.sampled_from([4, 8]) for name in _NAMES}),
)
@example([(2, 1, ("a", "b")), (1, 4, ("b",))], {"a": 0, "b": 1, "c": 0}, {"a": 4, "b": 4, "c": 4})
def test_where_gpus_alone_limit_every_set_the_bound_is_the_largest_number_of_gpu_shares(
    sets: list[tuple[int, int, tuple[str, ...]]], nodes: dict[str, int], gpus: dict[str, int]
) -> None:
    """By hand: runners of few GPUs first. A set gets what the other sets leave in the worst selection of its pools."""
    found = most_runners(
        {str(index): most for index, (most, _, _) in enumerate(sets)},
        nodes,
        {(str(index), pool): gpus[pool] // size for index, (_, size, pools) in enumerate(sets) for pool in pools},
    )
    best, before = Fraction(0), 0
    for size in (1, 2, 4):
        small = [(most * needed, pools) for most, needed, pools in sets if needed <= size]
        held = min(
            sum(nodes[name] * gpus[name] for name in full) + sum(asked for asked, pools in small if {*pools} - {*full})
            for count in range(len(_NAMES) + 1)
            for full in itertools.combinations(_NAMES, count)
        )
        best += Fraction(held - before, size)
        before = held
    assert found == math.floor(best)


@pytest.mark.parametrize("number", [24, 100])
def test_the_bound_of_many_pools_does_not_try_every_choice_of_pools(number: int) -> None:
    """That would take hours."""
    names = [str(index) for index in range(number)]
    held = {(name, pool): 1 + (int(name) * 7 + int(pool)) % 3 for name in names for pool in names}
    assert most_runners(dict.fromkeys(names, 4), dict.fromkeys(names, 1), held) == 3 * number


# -- examples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Pulumi.staging.yaml", "Pulumi.prod.yaml", "examples/Pulumi.ordered-pools.yaml"])
def test_the_default_sets_fall_back_to_on_demand(name: str) -> None:
    held = load(read_stack(ROOT / name))
    for _, settings in held.clusters_by_name():
        for runner_set in settings.pod_runners.values():
            first = settings.pools[runner_set.ordered[0]]
            if first.capacity == "spot":
                assert [settings.pools[each].role for each in runner_set.ordered] == ["burst", "fallback"]
    require(held, place(held))
