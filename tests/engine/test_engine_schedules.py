"""An update inside a window of a schedule leaves the sizes that the scheduled action has set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.provider import Provider, providers

pytestmark = pytest.mark.engine

STACK = staging.EXISTING
GROUP, ACTION = "aws:eks/nodeGroup:NodeGroup", "aws:autoscaling/schedule:Schedule"
SPOT, PLAIN = "          nodes: {min: 0, max: 4}\n", "          nodes: {min: 0, max: 1}\n"
WINDOW = '{days: [mon, tue, wed, thu, fri], start: "09:00", end: "18:00", nodes: 4}'
SCHEDULES = f"          schedules: {{timeZone: America/Los_Angeles, windows: {{work: {WINDOW}}}}}\n"
CREATED = {"minSize": 0, "maxSize": 2, "desiredSize": 0}
"""Sizes of each of the two groups of the pool, as they were created."""
INSIDE = {"minSize": 2, "maxSize": 2, "desiredSize": 2}
"""Their sizes in the cloud while the window is open."""


@dataclass(frozen=True)
class Site:
    """The example's project with schedules for its first pool, deployed to the simulated AWS."""

    cli: Cli
    aws: Provider

    @property
    def stack_file(self) -> Path:
        return self.cli.folder / STACK_FILE.format(STACK)

    def change(self, before: str, after: str) -> None:
        text = self.stack_file.read_text()
        assert before in text, "the stack file no longer has this line"
        self.stack_file.write_text(text.replace(before, after))

    def up(self, *options: str) -> None:
        """Updates the stack, and forgets what was asked before."""
        self.aws.asked.clear()
        self.cli.ok("up", "--stack", STACK, "--yes", "--skip-preview", "--suppress-progress", *options)

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The node groups of the scheduled pool in the state."""
        state = json.loads(self.cli.ok("stack", "export", "--stack", STACK).out)["deployment"]["resources"]
        return [each for each in state if each["type"] == GROUP and "::usw2-t4-spot-" in each["urn"]]

    def updated(self, kind: str, pool: str) -> list[dict[str, Any]]:
        """The new inputs of each resource of a pool that the last update changed."""
        calls = (each for each in self.aws.asked if each.method == "Update" and each.type == kind)
        return [dict(each.inputs) for each in calls if f"::usw2-{pool}-" in each.urn]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with providers(("aws", "kubernetes")) as serving:
        cli = staging.existing(tmp_path_factory.mktemp("schedules"), serving)
        found = Site(cli, serving["aws"])
        found.change(SPOT, SPOT + SCHEDULES)
        found.up()
        yield found


@pytest.fixture(scope="module")
def changed(site: Site) -> Site:
    """After an update that changes labels and sizes, while the window is open. Pulumi has not read the cloud."""
    site.change(SPOT + SCHEDULES, SPOT.replace("4", "6") + "          labels: {example.com/team: vision}\n" + SCHEDULES)
    site.change(PLAIN, PLAIN.replace("1", "3"))
    site.up()
    return site


def test_an_update_with_other_sizes_and_labels_sends_no_sizes(changed: Site) -> None:
    """AWS's provider sends all sizes if one of them differs from the state."""
    groups = changed.updated(GROUP, "t4-spot")
    assert [each["labels"]["example.com/team"] for each in groups] == ["vision", "vision"], "the groups were updated"
    assert [each["scalingConfig"] for each in groups] == [CREATED, CREATED]
    assert changed.updated(GROUP, "t4-release")[0]["scalingConfig"]["maxSize"] == 2, "a pool without schedules gets its sizes"


def test_the_actions_have_the_new_sizes_from_their_next_time_on(changed: Site) -> None:
    found = {(each["scheduledActionName"], each["minSize"], each["maxSize"]) for each in changed.updated(ACTION, "t4-spot")}
    assert found == {("work-start", 2, 3), ("work-end", 0, 3)}


def test_an_update_that_reads_the_open_window_from_the_cloud_leaves_it_open(changed: Site) -> None:
    created = {each["urn"]: each for each in changed.groups}
    for live in changed.aws.cloud.live(GROUP, lambda group: group.id in {each["id"] for each in created.values()}):
        live.change("scalingConfig", dict(INSIDE))
    changed.up("--refresh")
    assert [each["inputs"]["scalingConfig"] for each in changed.groups] == [INSIDE, INSIDE], "Pulumi has read the cloud"
    assert changed.updated(GROUP, "t4-spot") == [], "without a change nothing is sent"
    changed.change("team: vision", "team: audio")
    changed.up("--refresh")
    assert [each["scalingConfig"] for each in changed.updated(GROUP, "t4-spot")] == [INSIDE, INSIDE]
