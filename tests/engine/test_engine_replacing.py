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
TYPES = "instanceTypes: [g4dn.2xlarge, g4dn.4xlarge]"


def test_without_an_edit_nothing_changes(site, update):
    assert steps_of(site, "same", TYPES, TYPES) == {}


@pytest.mark.parametrize(
    ("name", "before", "after", "pool", "paths"),
    [
        # The order of spot types means nothing, so the program ignores the list and triggers the replacement.
        ("spot", TYPES, "instanceTypes: [g4dn.2xlarge, g4dn.8xlarge]", SPOT, []),
        ("on-demand", ON_DEMAND, ON_DEMAND.replace("2xlarge", "4xlarge"), FALLBACK, ["instanceTypes[0]"]),
    ],
)
def test_other_types_replace_the_groups_of_the_pool_and_their_tags(site, update, name, before, after, pool, paths):
    found = steps_of(site, name, before, after)
    assert {group: listed[:1] for (kind, group), (_, listed) in found.items() if kind == GROUP} == dict.fromkeys(pool, paths)
    replaced = {kind for (kind, _), (operation, _) in found.items() if operation == "replace"}
    assert replaced == {GROUP, TAG}, "the name of an Auto Scaling group changes with its node group"
    assert not replaced & {kind for (kind, _), (operation, _) in found.items() if operation != "replace"}


def test_another_config_of_nodes_updates_the_template_and_every_group_that_takes_its_version(site, update):
    found = steps_of(site, "config", CONFIG, "")
    assert found == {
        (TEMPLATE, "usw2-t4-spot-launch"): ("update", ["userData"]),
        **{(GROUP, name): ("update", ["launchTemplate.version"]) for name in SPOT},
    }
