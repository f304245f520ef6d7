"""Edits of the deployed staging stack: what the engine replaces and what it updates, as the clouds' rules have it."""

from __future__ import annotations

import pytest

from tests.engine.edits import steps_of

pytestmark = pytest.mark.engine

GROUP, TEMPLATE, TAG = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate", "aws:autoscaling/tag:Tag"


ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
SPOT = {f"usw2-t4-spot-{zone}-nodes" for zone in ZONES}
CONFIG = "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
FALLBACK = {f"usw2-t4-ondemand-{zone}-nodes" for zone in ZONES[:2]}
ON_DEMAND = "          instanceTypes: [g4dn.2xlarge]\n          capacity: on-demand\n"
EVICT = ("      zones:", "      replaceNodes: evict\n      zones:")
TYPES = "instanceTypes: [g4dn.2xlarge, g4dn.4xlarge]"


def test_without_an_edit_nothing_changes(site, update):
    assert steps_of(site, "same", TYPES, TYPES) == {}


@pytest.mark.parametrize(
    ("name", "before", "after", "pool"),
    [
        ("spot", TYPES, "instanceTypes: [g4dn.2xlarge, g4dn.8xlarge]", SPOT),
        ("on-demand", ON_DEMAND, ON_DEMAND.replace("2xlarge", "4xlarge"), FALLBACK),
    ],
)
def test_other_types_create_groups_beside_those_of_the_pool_which_get_the_taint(site, update, name, before, after, pool):
    found = steps_of(site, name, before, after)
    groups = {group: (operation, paths) for (kind, group), (operation, paths) in found.items() if kind == GROUP}
    # The size of an empty group is its maximum then, which is 1 at least.
    assert {group for group, (operation, paths) in groups.items() if operation == "update" and "taints" in paths} == pool
    assert {path for _, paths in groups.values() for path in paths} <= {"taints", "scalingConfig.maxSize"}
    assert {group[:-7] for group, (operation, _) in groups.items() if operation == "create"} == pool
    gone = {name for (_, name), (operation, _) in found.items() if operation == "delete"}
    assert gone == {f"{group.removesuffix('-nodes')}-tag-autoscaling-options/scaledownunneededtime" for group in pool}


def test_another_config_of_nodes_creates_a_template_and_groups_and_updates_no_template(site, update):
    found = steps_of(site, "config", CONFIG, "")
    created = {name[:-7] for (kind, name), (operation, _) in found.items() if operation == "create" and kind != TAG}
    assert created == {"usw2-t4-spot-launch", *SPOT}
    assert {name for (_, name), (operation, _) in found.items() if operation == "update"} == SPOT


def test_with_evict_the_old_groups_go_in_the_same_update(site, update):
    found = steps_of(site, "evict", CONFIG, "", EVICT)
    assert {name for (kind, name), (operation, _) in found.items() if operation == "delete" and kind == GROUP} == SPOT
    assert not [name for (_, name), (operation, _) in found.items() if operation == "update"]
