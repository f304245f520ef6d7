"""Node groups of an earlier generation wait for their jobs, beside the new ones."""

from __future__ import annotations

from typing import Any

import pytest

from components.context import Context
from components.eks.stack import build
from components.generations import Generations
from fleet.facts.scheduling import GENERATION_ANNOTATION, LEAVING
from fleet.loading.config import load
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.builders import cluster, config, pool, runner
from tests.components.recorded import ALONE, of_type
from tests.components.test_live_sizes import ABC, GROUP, KEYS, Live, cloud, t4

TEMPLATE, SUBNET, TAG = "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/subnet:Subnet", "aws:autoscaling/tag:Tag"
IDLE = t4((0, 2, 0), (0, 2, 0))
FIRST = t4((0, 2, 2), (0, 2, 1))
AB = ABC[:2]


def up(
    live: Live, first: dict[str, str], marked: list[str] | None = None, zones: list[str] = AB, **changes: Any
) -> tuple[Recording, dict[str, str]]:
    """What an update declares, and what it records as first generations. `changes` are those of the pool t4, or of `pools`."""
    whole = {key: changes.pop(key) for key in ("replaceNodes", "pools", "controlPlaneZones", "runners") if key in changes}
    pools = whole.pop("pools", {"t4": pool(nodes={"max": 4}, **changes)})
    described = load(config(clusters={"usw2": cluster(zones=zones, pools=pools, **{"runners": {}, **whole})}))
    generations = Generations(first)

    def program() -> None:
        build("usw2", described.clusters["usw2"], described, Context("gpu-ci", "test", {"team": "a"}, generations), KEYS)

    return record(program, ALONE, preview=False, answers=cloud(live, marked=marked or ())), generations.first


def groups(recording: Recording) -> dict[str, bool]:
    """The groups of pools by logical name, and whether they leave."""
    made = [group for group in of_type(recording, GROUP) if "system" not in group.name]
    return {group.name: any(taint["key"] == LEAVING.key for taint in group.inputs.get("taints") or ()) for group in made}


def warnings(recording: Recording) -> list[str]:
    return [message.text for message in recording.messages if message.severity == "warning"]


@pytest.fixture(scope="module")
def first() -> dict[str, str]:
    return up({}, {})[1]


def names(suffix: str = "") -> dict[str, bool]:
    return {f"usw2-t4-{zone}-nodes{suffix}": False for zone in AB}


def test_the_first_generation_has_plain_names_and_a_stack_without_a_record_adopts_what_it_has(first: dict[str, str]) -> None:
    assert first.keys() == {*names(), "usw2-t4-launch"}
    for recorded in ({}, first):
        recording, again = up(FIRST, recorded)
        assert (groups(recording), again, warnings(recording)) == (names(), first, [])


@pytest.mark.parametrize(
    "edit",
    [
        {"instanceTypes": ["g4dn.4xlarge"]},
        {"capacity": "spot", "instanceTypes": ["g4dn.xlarge", "g4dn.2xlarge"]},
        {"disk": "300Gi"},
        {"placementGroup": {"strategy": "spread"}},
        {"nodeConfig": {"instance": {"localStorage": {"strategy": "RAID0"}}}},
    ],
)
def test_an_edit_that_needs_other_nodes_declares_new_groups_beside_the_old(first: dict[str, str], edit: dict[str, Any]) -> None:
    recording, again = up(FIRST, first, **edit)
    assert again == first, "the names stay those of the first generation"
    made = groups(recording)
    assert {name for name, leaves in made.items() if leaves} == names().keys()
    new = {name for name, leaves in made.items() if not leaves}
    assert len(new) == 2
    assert all(name.removeprefix(old).startswith("-") for name, old in zip(sorted(new), sorted(names()), strict=True))
    assert len(warnings(recording)) == 2
    assert "usw2-t4-us-west-2a-nodes is leaving and has 2 nodes: no node ends now" in warnings(recording)[0]


def test_what_stays_is_as_it_was_and_can_only_shrink(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, disk="300Gi")
    (old,) = [group for group in of_type(recording, GROUP) if group.name == "usw2-t4-us-west-2a-nodes"]
    kept = {"amiType", "capacityType", "instanceTypes", "labels", "launchTemplate", "releaseVersion", "subnetIds", "version"}
    assert kept <= {*old.ignore_changes}
    assert not {"taints", "warmPoolConfig"} & {*old.ignore_changes}
    assert old.inputs["taints"] == [{"key": LEAVING.key, "value": "true", "effect": "NO_SCHEDULE"}]
    assert old.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 2, "desiredSize": 2}
    templates = {template.name: template.ignore_changes for template in of_type(recording, TEMPLATE) if "t4" in template.name}
    assert templates.pop("usw2-t4-launch") == ("*",)
    assert len(templates) == 1
    tags = {tag.name for tag in of_type(recording, TAG)}
    assert "usw2-t4-us-west-2a-tag-team" in tags
    assert len([name for name in tags if name.endswith("-tag-team") and "us-west-2a-" in name]) == 2


def test_a_group_leaves_in_two_updates(first: dict[str, str]) -> None:
    recording, _ = up(IDLE, first, disk="300Gi")
    assert sum(groups(recording).values()) == 2, "an empty group may still get a pod until it has the taint"
    assert all(text.endswith("and has 0 nodes: the next pulumi up deletes it") for text in warnings(recording))
    live = {**t4((0, 2, 0), (0, 2, 1)), **{f"{name}-0123abc": (0, 2, 0) for name in groups(recording) if name[-1] != "s"}}
    marked = [f"usw2-t4-us-west-2{zone}-nodes-0123abc" for zone in "ab"]
    after, _ = up(live, first, marked, disk="300Gi")
    assert [name for name, leaves in groups(after).items() if leaves] == ["usw2-t4-us-west-2b-nodes"]


def test_an_edit_that_is_taken_back_finds_the_first_generation_again(first: dict[str, str]) -> None:
    edited, _ = up(FIRST, first, disk="300Gi")
    (suffix,) = {name[-7:] for name, leaves in groups(edited).items() if not leaves}
    both = {**FIRST, **{f"usw2-t4-{zone}-nodes{suffix}-0123abc": (0, 2, 1) for zone in AB}}
    back, _ = up(both, first, [name for name in FIRST if "t4" in name])
    assert groups(back) == {**names(), **dict.fromkeys(names(suffix), True)}


def test_types_alone_share_the_launch_template_of_both_generations(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, instanceTypes=["g4dn.4xlarge"])
    assert [template.name for template in of_type(recording, TEMPLATE) if "t4" in template.name] == ["usw2-t4-launch"]


@pytest.mark.parametrize(
    "edit", [{"nodes": {"max": 3}}, {"labels": {"example.com/team": "a"}}, {"idleDelay": "5m"}, {"warm": {"maxPrepared": 3}}]
)
def test_an_edit_of_what_running_nodes_take_keeps_the_generation(first: dict[str, str], edit: dict[str, Any]) -> None:
    edit = {"pools": {"t4": pool(**{"nodes": {"max": 4}, **edit})}}
    assert groups(up(FIRST, first, **edit)[0]) == names()


def test_the_groups_of_a_removed_pool_stay_below_a_component_of_its_name(first: dict[str, str]) -> None:
    recording, again = up(FIRST, first, pools={"l4": pool(nodes={"max": 2}, instanceTypes=["g6.xlarge"])})
    assert {name: leaves for name, leaves in groups(recording).items() if "t4" in name} == dict.fromkeys(names(), True)
    assert {name: again.get(name) for name in first} == first, "the pool may come back with other machines while they leave"
    (parent,) = {group.parent for group in of_type(recording, GROUP) if "t4" in group.name}
    assert parent.endswith("::gpu-ci:index:GpuNodeGroup::usw2-t4")


def test_a_zone_that_the_cluster_leaves_keeps_its_subnets_while_it_has_nodes(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, zones=AB[:1], controlPlaneZones=["us-west-2a", "us-west-2c"])
    assert groups(recording) == {"usw2-t4-us-west-2a-nodes": False, "usw2-t4-us-west-2b-nodes": True}
    subnets = {subnet.name for subnet in of_type(recording, SUBNET)}
    assert "usw2-network-private-us-west-2b" in subnets
    rest = {name: sizes for name, sizes in FIRST.items() if "2b" not in name}
    gone, _ = up(rest, first, zones=AB[:1], controlPlaneZones=["us-west-2a", "us-west-2c"])
    assert "usw2-network-private-us-west-2b" not in {subnet.name for subnet in of_type(gone, SUBNET)}


def test_placeholders_move_to_the_new_nodes_once_the_old_ones_have_the_taint(first: dict[str, str]) -> None:
    def holders(recording: Recording) -> Any:
        (made,) = [made for made in of_type(recording, "kubernetes:apps/v1:Deployment") if "placeholders" in made.name]
        annotations = made.inputs["spec"]["template"]["metadata"].get("annotations", {})
        return annotations.get(GENERATION_ANNOTATION), [urn for urn in made.dependencies if urn.endswith("-nodes")]

    sets = {"gpu-t4": runner(pool="t4")}
    assert holders(up(FIRST, first, placeholders=1, runners=sets)[0]) == (None, [])
    digits, before = holders(up(FIRST, first, placeholders=1, disk="300Gi", runners=sets)[0])
    assert len(digits) == 6
    assert len(before) == 2


def test_evict_declares_no_old_group(first: dict[str, str]) -> None:
    recording, _ = up(FIRST, first, disk="300Gi", replaceNodes="evict")
    assert not any(groups(recording).values())
    assert not names().keys() & groups(recording).keys()
    assert warnings(recording) == []
