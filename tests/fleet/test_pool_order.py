"""The order of pools: one for all classes of a cluster, and the node group that Cluster Autoscaler chooses by it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.charts.cluster_autoscaler import anchored, cluster_autoscaler, comes_back, priorities
from fleet.loading.config import load
from fleet.providers.eks.provider import eks_moves, eks_priorities
from fleet.providers.oke.fallback import oke_priorities
from fleet.providers.registry import PROVIDERS
from fleet.settings.pool_order import ContradictionError, pool_ranks
from tests.builders import cluster, config, existing_eks, oke_cluster, oke_pool, pool, runner
from tests.examples import examples
from tests.yaml12 import read

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
# Each name is a part of another one.
NAMES = ("t4", "t4-spot", "spot", "t4-spot-us-west-2a", "a-t4", "b-t4", "nodes", "a-t4-spot")


def over(*pools: str) -> dict[str, Any]:
    """A runner class over several pools."""
    return runner(scale={"max": 1}, pools=list(pools))


def best(text: str, groups: list[str]) -> list[str]:
    """What the expander keeps of some groups, written after priority.go of the autoscaler, independent of the program."""
    numbers = [(int(number), patterns) for number, patterns in read(text).items()]
    kept: list[str] = []
    top = -1
    for group in groups:
        for number, patterns in numbers:
            if number < top or not any(re.search(pattern, group) for pattern in patterns):
                continue
            if number > top:
                top, kept = number, []
            kept.append(group)
    return kept or groups


@st.composite
def fleets(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A cluster whose classes order its pools in agreement, and its name."""
    pools = draw(st.permutations(NAMES).map(lambda names: names[:5]))
    zones = {name: draw(st.lists(st.sampled_from(ZONES), min_size=1, unique=True)) for name in pools}
    orders = draw(st.lists(st.sets(st.sampled_from(pools), min_size=2), min_size=1, max_size=3))
    sets = {f"set-{index}": over(*(name for name in pools if name in held)) for index, held in enumerate(orders)}
    held = {name: pool(zones=zones[name], nodes={"max": 3}) for name in pools}
    return draw(st.sampled_from(["a", "a-b", "b"])), cluster(zones=list(ZONES), pools=held, runners=sets)


@settings(max_examples=examples(60))
@given(fleets(), st.data())
def test_the_autoscaler_takes_the_first_pool_with_capacity(found: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    name, held = found
    made = load(config(clusters={name: held})).clusters[name]
    text = eks_priorities(name, made)
    ids = {
        (each, zone): f"eks-{name}-{each}-{zone}-nodes-{data.draw(_HEX):07x}-{data.draw(_HEX):08x}-9d1a-4c1b-8f00-0123456789ab"
        for each in made.pools
        for zone in made.groups_of(made.pools[each])
    }
    for order in made.pool_orders.values():
        mine = [key for key in ids if key[0] in order]
        available = data.draw(st.lists(st.sampled_from(mine), min_size=1, unique=True))
        first = next(each for each in order if any(each == pool_name for pool_name, _ in available))
        expected = {ids[key] for key in available if key[0] == first}
        assert set(best(text, [ids[key] for key in available])) == expected


_HEX = st.integers(0, 16**7 - 1)


def test_a_group_without_an_order_is_chosen_last_and_never_dropped() -> None:
    made = load(config(clusters={"usw2": cluster(pools={"t4": pool(), "spot": pool()}, runners={"gpu": over("spot", "t4")})}))
    text = eks_priorities("usw2", made.clusters["usw2"])
    system, foreign = "eks-usw2-system-nodes-0a1b2c3-00000000-1", "eks-my-eks-usw2-spot-us-west-2a-nodes-0a1b2c3-00000000-1"
    last = "eks-usw2-t4-us-west-2a-nodes-0a1b2c3-00000000-1"
    assert best(text, [system]) == [system]
    assert best(text, [system, foreign]) == [system, foreign], "the next expander chooses among equals"
    assert best(text, [system, foreign, last]) == [last]


def test_the_text_has_the_highest_number_first() -> None:
    made = load(config(clusters={"usw2": cluster(pools={"t4": pool(), "spot": pool()}, runners={"gpu": over("spot", "t4")})}))
    assert eks_priorities("usw2", made.clusters["usw2"]) == (
        '20: ["^eks-usw2-spot-us-west-2a-nodes-([0-9a-f]{6}-)?[0-9a-f]{7}-[0-9a-f]{8}-", '
        '"^eks-usw2-spot-us-west-2b-nodes-([0-9a-f]{6}-)?[0-9a-f]{7}-[0-9a-f]{8}-"]\n'
        '10: ["^eks-usw2-t4-us-west-2a-nodes-([0-9a-f]{6}-)?[0-9a-f]{7}-[0-9a-f]{8}-", '
        '"^eks-usw2-t4-us-west-2b-nodes-([0-9a-f]{6}-)?[0-9a-f]{7}-[0-9a-f]{8}-"]\n'
        '1: [".*"]\n'
    )


def test_a_dot_of_a_name_matches_only_a_dot() -> None:
    text = priorities({"a": 1}, {"a": [anchored("ocid1.nodepool.oc1") + "$"]})
    (pattern,) = read(text)[10]
    assert re.search(pattern, "ocid1.nodepool.oc1")
    assert not re.search(pattern, "ocid1xnodepool.oc1")
    assert not re.search(pattern, "ocid1.nodepool.oc10")


def test_pools_of_oke_are_known_by_their_ocid() -> None:
    sets = {"gpu": {**over("spot", "a10"), "acceptUnenforcedNetwork": "only our own code runs in these jobs"}}
    made = load(config(clusters={"sjc": oke_cluster(pools={"a10": oke_pool(), "spot": oke_pool()}, runners=sets)})).clusters[
        "sjc"
    ]
    ids = {"a10": "ocid1.nodepool.oc1.sjc.aaa", "spot": "ocid1.nodepool.oc1.sjc.bbb"}
    text = oke_priorities(made, ids)
    assert best(text, list(ids.values())) == [ids["spot"]]
    assert best(text, [ids["a10"]]) == [ids["a10"]]


@given(st.permutations(range(6)), st.lists(st.sets(st.integers(0, 5), min_size=2), max_size=5))
def test_ranks_keep_the_order_of_every_class(line: list[int], chosen: list[set[int]]) -> None:
    orders = {str(index): [str(each) for each in line if each in held] for index, held in enumerate(chosen)}
    ranks = pool_ranks(orders)
    assert set(ranks) == {each for held in orders.values() for each in held}
    assert all(ranks[first] > ranks[after] for held in orders.values() for first, after in pairwise(held))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_orders_in_a_circle_name_every_class_of_it(count: int) -> None:
    orders = {f"class-{n}": [f"pool-{n}", f"pool-{(n + 1) % count}"] for n in range(count)} | {"other": ["pool-9", "pool-0"]}
    with pytest.raises(ContradictionError) as caught:
        pool_ranks(orders)
    assert sorted(caught.value.steps) == [(f"class-{n}", f"pool-{n}", f"pool-{(n + 1) % count}") for n in range(count)]


def test_a_class_of_one_pool_changes_nothing() -> None:
    made = load(config()).clusters["usw2"]
    assert eks_priorities("usw2", made) == ""
    (chart,) = PROVIDERS["eks"].charts(made, "gpu-ci-test-usw2", load(config()).github)
    assert chart.values["extraArgs"]["expander"] == "least-waste"
    assert not [key for key in chart.values["extraArgs"] if "backoff" in key]


def test_the_chart_prefers_pools_and_leaves_the_configmap_to_the_program() -> None:
    values = cluster_autoscaler("gpu-ci-test-usw2", "us-west-2", "1.36", by_priority=True).values
    assert values["extraArgs"]["expander"].split(",") == ["priority", "least-waste"]
    assert "expanderPriorities" not in values, "otherwise the chart creates the ConfigMap, too"


def test_the_plan_states_the_waits_that_the_chart_gets() -> None:
    flags = cluster_autoscaler("gpu-ci-test-usw2", "us-west-2", "1.36", by_priority=True).values["extraArgs"]
    wait, most = (int(flags[f"{key}-node-group-backoff-duration"].removesuffix("m")) for key in ("initial", "max"))
    assert comes_back() == f"{wait} to {most} minutes later"
    made = load(config(clusters={"usw2": cluster(pools={"t4": pool(), "spot": pool()}, runners={"gpu": over("spot", "t4")})}))
    told = eks_moves("usw2", made.clusters["usw2"], ("spot", "t4"))
    assert comes_back() in told
    assert "the last pool in 2 to 4 minutes" in told, "one to two minutes for each of the two zones"


def test_an_autoscaler_of_the_clusters_own_is_told_what_to_do() -> None:
    held = existing_eks(
        installed=["cluster-autoscaler"], pools={"t4": pool(), "spot": pool()}, runners={"gpu": over("spot", "t4")}
    )
    made = load(config(clusters={"usw2": held})).clusters["usw2"]
    assert eks_priorities("usw2", made) == "", "the program does not own its ConfigMap"
    told = eks_moves("usw2", made, ("spot", "t4"))
    assert "--expander=priority,least-waste" in told
    assert '20: ["^eks-usw2-spot-us-west-2a-nodes-' in told
