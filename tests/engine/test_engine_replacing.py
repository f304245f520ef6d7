"""Edits of the deployed staging stack: what the engine replaces and what it updates, as the clouds' rules have it."""

from __future__ import annotations

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.verdicts import STREAMED, events

pytestmark = pytest.mark.engine

GROUP, TEMPLATE, TAG = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate", "aws:autoscaling/tag:Tag"


def steps(site, name, before, after):
    """{(type, name): (operation, paths that differ)} of an edited copy's preview, but for what stays as it is."""
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
        if step["op"] not in ("same", "refresh", "create-replacement", "delete-replaced"):
            found[kind.rpartition("$")[2], resource] = (step["op"], sorted(step.get("detailedDiff") or {}))
    return found


ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
SPOT = {f"usw2-t4-spot-{zone}-nodes" for zone in ZONES}
TYPES = "instanceTypes: [g4dn.2xlarge, g4dn.4xlarge]"


def test_without_an_edit_nothing_changes(site, update):
    assert steps(site, "same", TYPES, TYPES) == {}


def test_other_spot_types_replace_the_groups_of_the_pool_and_their_tags(site, update):
    found = steps(site, "types", TYPES, "instanceTypes: [g4dn.2xlarge, g4dn.8xlarge]")
    assert {name for kind, name in found if kind == GROUP} == SPOT
    assert {operation for operation, _ in found.values()} == {"replace"}
    assert {kind for kind, _ in found} == {GROUP, TAG}, "the name of an Auto Scaling group changes with its node group"
    assert [paths for (kind, _), (_, paths) in found.items() if kind == GROUP] == [["instanceTypes[1]"]] * 3


def test_another_config_of_nodes_updates_the_template_and_every_group_that_takes_its_version(site, update):
    found = steps(site, "config", "strategy: RAID0", "strategy: RAID10")
    assert found == {
        (TEMPLATE, "usw2-t4-spot-launch"): ("update", ["userData"]),
        **{(GROUP, name): ("update", ["launchTemplate.version"]) for name in SPOT},
    }
