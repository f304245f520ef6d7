"""Edits of the deployed staging stack: what the engine replaces and what it updates, as the clouds' rules have it."""

from __future__ import annotations

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.verdicts import STREAMED, events

pytestmark = pytest.mark.engine

GROUP, TEMPLATE, TAG = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate", "aws:autoscaling/tag:Tag"


def steps(site, name, before, after):
    """{(type, name): (operation, paths that differ)} of what an edited copy's preview changes in the clouds."""
    cli = site.variant(name)
    file = cli.folder / STACK_FILE.format(staging.STACK)
    text = file.read_text()
    assert before in text, "the stack file no longer has this text"
    file.write_text(text.replace(before, after, 1))
    preview = cli.having(**STREAMED)("preview", "--stack", staging.STACK, "--json", "--suppress-progress")
    assert preview.status == 0, preview
    found = {}
    for event in events(preview, "resourcePreEvent"):
        step = event["metadata"]
        kind, _, resource = step["urn"].rpartition("::")
        if ":index:" not in kind and step["op"] not in ("same", "refresh", "create-replacement", "delete-replaced"):
            found[kind.rpartition("$")[2], resource] = (step["op"], sorted(step.get("detailedDiff") or {}))
    return found


ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
SPOT = {f"usw2-t4-spot-{zone}-nodes" for zone in ZONES}
CONFIG = "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"
FALLBACK = {f"usw2-t4-ondemand-{zone}-nodes" for zone in ZONES[:2]}
ON_DEMAND = "          instanceTypes: [g4dn.2xlarge]\n          capacity: on-demand\n"
TYPES = "instanceTypes: [g4dn.2xlarge, g4dn.4xlarge]"


def test_without_an_edit_nothing_changes(site, update):
    assert steps(site, "same", TYPES, TYPES) == {}


@pytest.mark.parametrize(
    ("name", "before", "after", "pool", "paths"),
    [
        # The order of spot types means nothing, so the program ignores the list and triggers the replacement.
        ("spot", TYPES, "instanceTypes: [g4dn.2xlarge, g4dn.8xlarge]", SPOT, []),
        ("on-demand", ON_DEMAND, ON_DEMAND.replace("2xlarge", "4xlarge"), FALLBACK, ["instanceTypes[0]"]),
    ],
)
def test_other_types_replace_the_groups_of_the_pool_and_their_tags(site, update, name, before, after, pool, paths):
    found = steps(site, name, before, after)
    assert {group: listed for (kind, group), (_, listed) in found.items() if kind == GROUP} == dict.fromkeys(pool, paths)
    replaced = {kind for (kind, _), (operation, _) in found.items() if operation == "replace"}
    assert replaced == {GROUP, TAG}, "the name of an Auto Scaling group changes with its node group"
    assert not replaced & {kind for (kind, _), (operation, _) in found.items() if operation != "replace"}


def test_another_config_of_nodes_updates_the_template_and_every_group_that_takes_its_version(site, update):
    found = steps(site, "config", CONFIG, "")
    assert found == {
        (TEMPLATE, "usw2-t4-spot-launch"): ("update", ["userData"]),
        **{(GROUP, name): ("update", ["launchTemplate.version"]) for name in SPOT},
    }
