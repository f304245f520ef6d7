"""The sizes that an update sends to node groups that exist, whatever the autoscaler has made of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import pulumi
import pytest
from hypothesis import given, settings, strategies as st

from components.context import Context
from components.eks.stack import build
from fleet.facts.scheduling import LEAVING, POOL_LABEL
from fleet.loading.config import load
from fleet.providers.eks.groups import Sizes, resized, zone_groups
from fleet.settings.model import Nodes
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Answer, Recording, Resource
from gpu_ci.offline.wire import UNKNOWN
from policies.rules import RULES
from tests.builders import cluster, config, existing_eks, pool
from tests.components.recorded import ALONE, of_type
from tests.day import AS_OF
from tests.examples import examples

GROUP, ACTION = "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/schedule:Schedule"
ABC = [f"us-west-2{letter}" for letter in "abc"]
Live = Mapping[str, tuple[int, int, int]]
"""Minimum, maximum and present nodes by the name of a group in AWS."""
GONE = (-1, -1, -1)

KEYS = {"default": "a key"}


def cloud(
    live: Live,
    later: Live = {},  # noqa: B006 - it is read alone
    name: str = "gpu-ci-test-usw2",
    stack: str = "test",
    status: str = "ACTIVE",
    marked: Collection[str] = (),
) -> dict[str, Answer]:
    """What AWS answers. `later` are the sizes of groups that change after the program has asked for them once.

    The groups are of `stack`. One that has the sizes GONE later is not there any more. Those in `marked` leave already.
    """
    asked: dict[str, int] = {}

    def node_group(arguments: Mapping[str, Any]) -> dict[str, Any]:
        group = arguments["nodeGroupName"]
        assert group.startswith("usw2-"), "a group of somebody else may go at any time"
        asked[group] = asked.get(group, 0) + 1
        least, most, size = later[group] if asked[group] > 1 and group in later else live[group]
        sizes = {"minSize": least, "maxSize": most, "desiredSize": size}
        tags = {"gpu-ci/stack": stack}
        pool = re.sub(r"-us-west-.*", "", group.removeprefix("usw2-"))
        return {
            "nodeGroupName": group,
            "clusterName": name,
            "scalingConfigs": [sizes],
            "status": status,
            "tags": tags,
            "labels": {POOL_LABEL: "system" if pool.startswith("system") else pool},
            "taints": [{"key": LEAVING.key, "value": "true", "effect": "NO_SCHEDULE"}] if group in marked else [],
            "launchTemplates": [{"id": "lt-0", "name": f"usw2-{pool}-launch-0123abc", "version": "3"}],
            "subnetIds": ["subnet-0"],
        }

    def names(_: Mapping[str, Any]) -> dict[str, Any]:
        return {"names": [group for group in live if not (asked and later.get(group) == GONE)]}

    return {
        "aws:eks/getClusters:getClusters": lambda _: {"names": ["another", name]},
        "aws:eks/getNodeGroups:getNodeGroups": names,
        "aws:eks/getNodeGroup:getNodeGroup": node_group,
    }


def deployed(answers: Mapping[str, Answer], *, preview: bool = False, **changes: Any) -> Recording:
    """A cluster with the pool t4 in three zones, in a cloud that answers so."""
    described = load(config(clusters={"usw2": cluster(zones=ABC, **changes)}))

    def program() -> None:
        build("usw2", described.clusters["usw2"], described, Context("gpu-ci", "test", {}), KEYS)

    return record(program, ALONE, preview=preview, answers=answers)


def sent(resource: Resource) -> tuple[int, int, int] | None:
    """Minimum, maximum and size that an update sends; None if it sends none, whatever AWS has."""
    if "scalingConfig" in resource.ignore_changes:
        return None
    sizes = resource.inputs["scalingConfig"]
    return sizes["minSize"], sizes["maxSize"], sizes["desiredSize"]


def groups(recording: Recording, name: str = "t4") -> dict[str, Resource]:
    """The groups of a pool by the last letter of their zone, or by "" for the system pool."""
    return {
        resource.name.removeprefix(f"usw2-{name}").removeprefix("-us-west-2").removesuffix("nodes").removesuffix("-"): resource
        for resource in of_type(recording, GROUP)
        if resource.inputs["labels"][POOL_LABEL] == name
    }


def t4(a: tuple[int, int, int], b: tuple[int, int, int], c: tuple[int, int, int] | None = None) -> Live:
    """The groups of the pool t4 as they are in AWS, and the system pool with its defaults."""
    zones = {"a": a, "b": b} | ({"c": c} if c else {})
    return {"usw2-system-nodes-1a2b3c4": (2, 4, 2)} | {f"usw2-t4-us-west-2{z}-nodes-0123abc": sizes for z, sizes in zones.items()}


def after(live: Live, nodes: dict[str, int], later: Live = {}, **changes: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: B006
    """What an update with these `nodes` sends by zone, and the warnings about it."""
    recording = deployed(cloud(live, later), pools={"t4": pool(nodes=nodes, **changes)})
    return {zone: sent(group) for zone, group in groups(recording).items()}, [
        message.text for message in recording.messages if message.severity == "warning"
    ]


def test_groups_with_the_right_bounds_are_sent_nothing() -> None:
    busy = t4((0, 2, 2), (0, 2, 1), (0, 1, 0))
    assert after(busy, {"max": 5}) == ({"a": None, "b": None, "c": None}, [])


def test_a_raised_minimum_comes_with_a_size_that_eks_takes() -> None:
    idle = t4((0, 2, 0), (0, 2, 2), (0, 1, 0))
    assert after(idle, {"min": 2, "max": 5}) == ({"a": (1, 2, 1), "b": (1, 2, 2), "c": None}, [])


def test_a_lowered_maximum_leaves_the_nodes_of_a_busy_group_and_says_so() -> None:
    busy = t4((0, 3, 3), (0, 3, 1), (0, 2, 0))
    text = "usw2-t4-us-west-2a-nodes has 3 nodes, and its share of nodes.max is 2: no node ends now; "
    assert after(busy, {"max": 5}) == (
        {"a": None, "b": (0, 2, 1), "c": (0, 1, 0)},
        [f"{text}a later pulumi up lowers its maximum once it has fewer"],
    )
    fewer = t4((0, 3, 2), (0, 2, 1), (0, 1, 0))
    assert after(fewer, {"max": 5}) == ({"a": (0, 2, 2), "b": None, "c": None}, [])


def test_a_zone_without_a_share_keeps_its_group_while_it_has_nodes() -> None:
    busy = t4((0, 2, 2), (0, 2, 1), (0, 1, 1))
    assert after(busy, {"max": 2}) == (
        {"a": None, "b": (0, 1, 1), "c": None},
        [
            "usw2-t4-us-west-2a-nodes has 2 nodes, and its share of nodes.max is 1: no node ends now; a later pulumi up lowers "
            "its maximum once it has fewer",
            "usw2-t4-us-west-2c-nodes is leaving and has 1 node: no node ends now; a later pulumi up deletes it once it is empty",
        ],
    )


def test_a_group_without_a_share_cannot_grow_and_loses_its_minimum() -> None:
    least = t4((1, 2, 2), (1, 2, 1), (1, 3, 2))
    sizes, _ = after(least, {"max": 2})
    assert sizes["c"] == (0, 2, 2)


def test_a_zone_that_the_pool_leaves_keeps_its_group_while_it_has_nodes() -> None:
    busy = t4((0, 2, 2), (0, 2, 1), (0, 1, 1))
    sizes, warnings = after(busy, {"max": 4}, zones=ABC[:2])
    assert sizes == {"a": None, "b": None, "c": None}
    assert [text.partition(" ")[0] for text in warnings] == ["usw2-t4-us-west-2c-nodes"]


def test_a_pool_that_moves_to_a_reservation_of_another_zone_keeps_its_busy_groups() -> None:
    reservation = {"id": "cr-0123456789abcdef0", "zone": "us-west-2b", "count": 2}
    live = t4((0, 1, 1), (0, 1, 0), (0, 1, 0))
    sizes, _ = after(live, {"max": 2}, capacity="reserved", reservation=reservation)
    assert sizes == {"a": None, "b": (0, 2, 0), "c": None}


def test_a_size_that_changes_during_the_update_is_sent_as_it_is_then() -> None:
    start, later = t4((0, 2, 0), (0, 3, 1), (0, 1, 0)), t4((0, 2, 2), (0, 3, 3), (0, 1, 0))
    sizes, warnings = after(start, {"max": 5}, later)
    assert sizes == {"a": None, "b": (0, 3, 3), "c": None}, "its maximum would be 2, and it has 3 nodes by now"
    assert warnings == []


def test_a_preview_in_which_something_comes_before_the_nodes_does_not_know_the_size_yet() -> None:
    recording = deployed(cloud(t4((0, 2, 2), (0, 3, 1), (0, 1, 0))), preview=True, pools={"t4": pool(nodes={"max": 5})})
    assert {zone: group.inputs["scalingConfig"] is UNKNOWN for zone, group in groups(recording).items()} == {
        "a": False,
        "b": True,
        "c": False,
    }


def test_a_group_that_is_not_there_starts_with_its_minimum() -> None:
    recording = deployed(cloud(t4((0, 2, 2), (0, 2, 1))), pools={"t4": pool(nodes={"min": 3, "max": 5})})
    made = groups(recording)["c"]
    assert sent(made) == (1, 1, 1)
    assert made.ignore_changes == ("scalingConfig.desiredSize",)
    assert {zone: sent(group) for zone, group in groups(recording).items() if zone != "c"} == {"a": (1, 2, 2), "b": (1, 2, 1)}


def test_the_groups_of_another_cluster_or_pool_count_for_nobody() -> None:
    names = ("usw2-t4-us-west-2a-nodes-x", "usw2-t4-us-west-2a-nodes-0123abc-0123abc", "other-usw2-t4-us-west-2a-nodes-0123abc")
    recording = deployed(cloud(dict.fromkeys(names, (0, 9, 9))), pools={"t4": pool(nodes={"max": 5})})
    assert {group.ignore_changes for group in of_type(recording, GROUP)} == {("scalingConfig.desiredSize",)}
    other = deployed(cloud(t4((0, 9, 9), (0, 9, 9)), name="gpu-ci-test-other"), pools={"t4": pool(nodes={"max": 5})})
    assert {zone: sent(group) for zone, group in groups(other).items()} == {"a": (0, 2, 0), "b": (0, 2, 0), "c": (0, 1, 0)}


@pytest.mark.parametrize("not_ours", [{"stack": "other"}, {"status": "DELETING"}])
def test_the_group_of_another_stack_and_one_that_aws_deletes_do_not_count(not_ours: dict[str, Any]) -> None:
    there = cloud(t4((0, 9, 9), (0, 9, 9), (0, 9, 9)), **not_ours)
    recording = deployed(there, pools={"t4": pool(nodes={"max": 2})})
    assert {zone: sent(group) for zone, group in groups(recording).items()} == {"a": (0, 1, 0), "b": (0, 1, 0)}
    assert [message for message in recording.messages if message.severity == "warning"] == []


def test_a_group_that_goes_with_its_control_plane_during_the_update_starts_again_with_its_minimum() -> None:
    start = t4((0, 2, 2), (0, 3, 1), (0, 1, 0))
    sizes, _ = after(start, {"max": 5}, dict.fromkeys(start, GONE))
    assert sizes == {"a": None, "b": (0, 2, 0), "c": None}


def test_of_two_groups_that_an_interrupted_replacement_left_the_larger_one_counts() -> None:
    both = {**t4((0, 2, 0), (0, 2, 0), (0, 1, 0)), "usw2-t4-us-west-2a-nodes-fedcba9": (0, 3, 3)}
    sizes, warnings = after(both, {"max": 5})
    assert sizes["a"] == (0, 3, 3)
    assert len(warnings) == 1


SCHEDULES = {
    "timeZone": "Etc/UTC",
    "windows": {"work": {"days": ["mon"], "start": "09:00", "end": "18:00", "nodes": 2}},
}


def test_scheduled_actions_own_the_sizes_of_their_groups_and_a_group_without_a_share_has_none() -> None:
    window = t4((2, 2, 2), (1, 1, 1), (1, 1, 1))
    recording = deployed(cloud(window), pools={"t4": pool(nodes={"max": 2}, schedules=SCHEDULES)})
    assert {zone: sent(group) for zone, group in groups(recording).items()} == {"a": None, "b": None, "c": (0, 1, 1)}
    zones = {resource.name.removeprefix("usw2-t4-us-west-2")[0] for resource in of_type(recording, ACTION)}
    assert zones == {"a", "b"}
    (message,) = [message.text for message in recording.messages if message.severity == "warning"]
    assert message.startswith("usw2-t4-us-west-2c-nodes "), "the actions of the others own their sizes"


@pytest.mark.parametrize(
    ("live", "nodes", "expected", "warned"),
    [
        ((2, 4, 2), {"min": 3, "max": 4}, (3, 4, 3), False),
        ((3, 3, 3), {"min": 2, "max": 3}, (2, 3, 3), False),
        ((3, 3, 3), {"min": 2, "max": 2}, (2, 3, 3), True),
        ((2, 4, 4), {"min": 2, "max": 4}, None, False),
    ],
)
def test_the_system_pool_changes_its_numbers_in_one_update(live: Any, nodes: Any, expected: Any, warned: bool) -> None:
    recording = deployed(cloud({"usw2-system-nodes-1a2b3c4": live}), system={"nodes": nodes})
    assert sent(groups(recording, "system")[""]) == expected
    assert bool([message for message in recording.messages if message.severity == "warning"]) is warned


def test_an_existing_cluster_is_asked_by_its_own_name() -> None:
    described = load(config(clusters={"usw2": existing_eks(pools={"t4": pool(nodes={"min": 1, "max": 2})})}))

    def program() -> None:
        build("usw2", described.clusters["usw2"], described, Context("gpu-ci", "test", {}), KEYS)

    name = described.clusters["usw2"].existing.name
    live = {"usw2-t4-us-west-2a-nodes-0123abc": (0, 1, 0)}
    recording = record(program, ALONE, preview=False, answers=cloud(live, name=name))
    assert sent(groups(recording)["a"]) == (1, 1, 1)


def test_a_refusal_of_aws_is_one_error_that_names_the_rights() -> None:
    def refuses(_: Mapping[str, Any]) -> dict[str, Any]:
        raise ValueError("AccessDeniedException: not authorized to perform: eks:ListClusters")

    with pytest.raises(pulumi.RunError) as error:
        deployed({"aws:eks/getClusters:getClusters": refuses})
    assert str(error.value) == (
        "gpu-ci-test-usw2: AWS does not report the sizes of its node groups: AccessDeniedException: not authorized to perform: "
        "eks:ListClusters; a preview and an update need eks:ListClusters, eks:ListNodegroups and eks:DescribeNodegroup "
        "(docs/bootstrap.md)"
    )


def test_the_policies_take_the_size_that_an_update_sends() -> None:
    recording = deployed(cloud(t4((0, 3, 3), (0, 3, 1), (0, 2, 2))), pools={"t4": pool(nodes={"max": 7})})
    assert sent(groups(recording)["a"]) is None
    assert sent(groups(recording)["b"]) == (0, 2, 1)
    rules = [rule for rule in RULES if rule.id == "scale-to-zero"]
    assert judge(recording, configure(rules, {"scale-to-zero": "mandatory"}, AS_OF)) == ()


# -- for every edit of every live pool ----------------------------------------------------------------------------------


@st.composite
def nodes_of(draw: st.DrawFn) -> Nodes:
    most = draw(st.integers(1, 12))
    return Nodes(min=draw(st.integers(0, most)), max=most)


@given(nodes_of(), st.integers(0, 15))
def test_eks_takes_every_size_and_no_node_ends(nodes: Nodes, size: int) -> None:
    sizes = resized(nodes, size)
    assert 0 <= sizes.min <= sizes.desired <= sizes.max
    assert sizes.max >= 1
    assert sizes.desired >= size
    assert sizes.desired == size or size < sizes.min == sizes.desired
    assert sizes.min == nodes.min
    assert sizes.max == nodes.max or sizes.max == size > nodes.max
    assert resized(nodes, sizes.desired) == sizes, "the next update changes nothing"


@given(st.data(), nodes_of(), nodes_of())
@settings(max_examples=examples(20), deadline=None)
def test_no_edit_ends_a_node_of_a_pool(data: st.DataObject, before: Nodes, edit: Nodes) -> None:
    live = {
        f"usw2-t4-{zone}-nodes-0123abc": Sizes(share.min, share.max, data.draw(st.integers(share.min, share.max)))
        for zone, share in zone_groups(ABC, before).items()
    }
    answers = cloud({name: (sizes.min, sizes.max, sizes.desired) for name, sizes in live.items()})
    nodes = {"min": edit.min, "max": edit.max}
    kept = groups(deployed(answers, pools={"t4": pool(nodes=nodes)}))
    for name, sizes in live.items():
        group = kept.get(name.removeprefix("usw2-t4-us-west-2")[0])
        if group is None:
            assert sizes.desired == 0, "the update would delete a group with nodes"
        elif (request := sent(group)) is not None:
            least, most, size = request
            assert least <= size <= most
            assert size == max(sizes.desired, least)
