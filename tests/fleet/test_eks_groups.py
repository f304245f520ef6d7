"""How the nodes of an EKS pool split over its zones, and the zones of nodes and control plane."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from fleet.loading.config import load
from fleet.providers.eks.groups import zone_groups
from fleet.settings.model import Nodes
from tests.builders import cluster, config, pool
from tests.cases import cases

ZONES = [f"us-west-2{letter}" for letter in "abcdef"]


def sizes(zones: list[str], least: int, most: int) -> dict[str, tuple[int, int]]:
    return {zone[-1]: (held.min, held.max) for zone, held in zone_groups(zones, Nodes(min=least, max=most)).items()}


@cases(
    ("count", "least", "most", "expected"),
    [
        (3, 0, 5, {"a": (0, 2), "b": (0, 2), "c": (0, 1)}),
        (3, 4, 5, {"a": (2, 2), "b": (1, 2), "c": (1, 1)}),
        (3, 0, 2, {"a": (0, 1), "b": (0, 1)}),
        (1, 2, 7, {"a": (2, 7)}),
        (2, 1, 1, {"a": (1, 1)}),
    ],
)
def test_nodes_split_over_zones_in_their_order(count: int, least: int, most: int, expected: dict[str, tuple[int, int]]) -> None:
    assert sizes(ZONES[:count], least, most) == expected


def test_the_first_zones_given_get_what_remains() -> None:
    assert sizes(["us-west-2c", "us-west-2a"], 1, 3) == {"c": (1, 2), "a": (0, 1)}


@given(st.integers(1, 6), st.integers(1, 1000).flatmap(lambda most: st.tuples(st.integers(0, most), st.just(most))))
def test_shares_sum_to_the_pool_and_are_ones_that_eks_accepts(count: int, numbers: tuple[int, int]) -> None:
    least, most = numbers
    held = sizes(ZONES[:count], least, most)
    assert sum(each for each, _ in held.values()) == least
    assert sum(each for _, each in held.values()) == most, "neither bill nor quota may be exceeded"
    assert all(0 <= lower <= upper and upper >= 1 for lower, upper in held.values()), "CreateNodegroup refuses anything else"
    assert len(held) == min(count, most)


def eks(**changes: Any) -> Any:
    return load(config(clusters={"usw2": cluster(**changes)})).clusters["usw2"]


def test_zones_of_the_control_plane_are_those_of_the_nodes_unless_the_settings_name_others() -> None:
    assert eks().fixed_zones == ("us-west-2a", "us-west-2b")
    moved = eks(zones=["us-west-2c", "us-west-2b"], controlPlaneZones=["us-west-2a", "us-west-2b"])
    assert moved.fixed_zones == ("us-west-2a", "us-west-2b")
    assert moved.network_zones == ("us-west-2a", "us-west-2b", "us-west-2c"), "the first has the one NAT gateway"
    assert list(moved.groups_of(moved.pools["t4"])) == ["us-west-2c", "us-west-2b"]


def test_nodes_may_be_in_one_zone_if_the_control_plane_is_in_two() -> None:
    assert eks(zones=["us-west-2c"], controlPlaneZones=["us-west-2a", "us-west-2b"]).zones == ("us-west-2c",)


def test_quotas_of_node_groups_are_remarked_on() -> None:
    many = {f"p{number}": pool() for number in range(15)}
    found = eks(pools=many | {"t4": pool(nodes={"max": 1000})}).remarks
    assert [each.partition(";")[0] for each in found if "by default EKS allows" in each or "node groups, one" in each] == [
        "pool t4: by default EKS allows 450 nodes per node group, and a pool has one group per zone",
        "pools: 33 node groups, one per pool and zone and one of the system pool",
    ]
    assert not [each for each in eks(pools={"t4": pool(nodes={"max": 900})}).remarks if "450" in each]
