"""Edits of staging that need other nodes, on the real engine: the old groups stay while they have nodes, and no update waits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from fleet.facts.scheduling import LEAVING
from tests.engine import staging
from tests.engine.live import Live
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
ZONES = "      zones: [us-west-2a, us-west-2b, us-west-2c]\n"
NODES = "          nodes: {min: 0, max: 5}\n"
CONFIG = "          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}\n"


@dataclass(frozen=True)
class Fleet:
    """Staging, deployed."""

    site: Site

    def edit(self, before: str, after: str) -> None:
        text = self.site.file.read_text()
        assert before in text, before
        self.site.file.write_text(text.replace(before, after, 1))

    def up(self, *options: str) -> list[str]:
        """The groups that are leaving, as the update names them, by zone."""
        return sorted(set(re.findall(r"(\S+) is leaving", self.site.up(*options).text)))

    def groups(self, pool: str = "t4-spot") -> list[Live]:
        return self.site.cloud.live(GROUP, lambda group: group.inputs["labels"]["gpu-ci/pool"] == pool)

    def leaving(self, pool: str = "t4-spot") -> dict[str, bool]:
        """Whether a group has the taint, by its name without the digits that Pulumi appends."""
        return {
            group.outputs["nodeGroupName"][:-8]: LEAVING.key in json.dumps(group.inputs["taints"]) for group in self.groups(pool)
        }

    def scale(self, size: int, pool: str = "t4-spot") -> None:
        """The autoscaler's work."""
        for group in self.groups(pool):
            if self.leaving(pool)[group.outputs["nodeGroupName"][:-8]] or size:
                group.change("scalingConfig.desiredSize", size)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with staging.built(tmp_path_factory.mktemp("leaving")) as site:
        made = Fleet(site)
        made.edit(ZONES, f"{ZONES}      controlPlaneZones: [us-west-2a, us-west-2b]\n")
        site.up()
        yield made


def names(*zones: str, end: str = "") -> set[str]:
    return {f"usw2-t4-spot-us-west-2{zone}-nodes{end}" for zone in zones}


def test_an_update_returns_while_groups_leave_and_a_later_one_finishes_it(fleet: Fleet) -> None:
    fleet.scale(1)
    fleet.edit(CONFIG, "")
    counted = fleet.site.cli(*staging.PREVIEW)
    assert counted.status != 0
    for policy in ("stack-cost-ceiling", "stack-gpu-ceiling"):
        assert f"{policy} (pulumi:pulumi:Stack" in counted.text, "both generations count"
    assert fleet.up() == sorted(names(*"abc"))
    groups = fleet.leaving()
    (end,) = {name[-7:] for name, leaves in groups.items() if not leaves}
    assert groups == dict.fromkeys(names(*"abc"), True) | dict.fromkeys(names(*"abc", end=end), False)
    assert fleet.up("--expect-no-changes") == sorted(names(*"abc")), "as long as they have nodes"
    fleet.scale(0)
    assert fleet.up() == []
    assert fleet.leaving() == dict.fromkeys(names(*"abc", end=end), False)
    templates = fleet.site.cloud.live(TEMPLATE, lambda template: "t4-spot" in template.outputs["name"])
    assert [template.outputs["name"][:-15] for template in templates] == ["usw2-t4-spot-launch"]
    fleet.up("--expect-no-changes")


def test_an_edit_that_is_taken_back_brings_the_first_groups_back_into_service(fleet: Fleet) -> None:
    fleet.scale(1)
    (later,) = {name[-7:] for name in fleet.leaving()}
    fleet.edit(NODES, f"{NODES}{CONFIG}")
    assert fleet.up() == sorted(names(*"abc", end=later))
    fleet.edit(CONFIG, "")
    fleet.scale(1)
    assert fleet.up() == sorted(names(*"abc")), "the plain names are leaving again"
    assert fleet.leaving() == dict.fromkeys(names(*"abc"), True) | dict.fromkeys(names(*"abc", end=later), False)
    fleet.scale(0)
    fleet.up()


def test_a_zone_that_the_cluster_leaves_keeps_its_network_while_it_has_nodes(fleet: Fleet) -> None:
    fleet.scale(1)
    subnets = len(fleet.site.cloud.live("aws:ec2/subnet:Subnet"))
    fleet.edit(ZONES, "      zones: [us-west-2a, us-west-2b]\n")
    (leaving,) = fleet.up()
    assert "us-west-2c" in leaving
    assert len(fleet.site.cloud.live("aws:ec2/subnet:Subnet")) == subnets
    fleet.scale(0)
    fleet.up()
    assert len(fleet.site.cloud.live("aws:ec2/subnet:Subnet")) == subnets - 2
    fleet.up("--expect-no-changes")
