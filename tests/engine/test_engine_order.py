"""Another order of spot types and of labels replaces nothing on the real engine; other items do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.provider import Provider, providers

pytestmark = pytest.mark.engine

STACK = staging.EXISTING
GROUP, RELEASE = "aws:eks/nodeGroup:NodeGroup", "kubernetes:helm.sh/v3:Release"
TYPES = "[g4dn.2xlarge, g4dn.4xlarge]"
LABELS = "          labels: [gpu, cuda]\n"
SET = "        gpu-t4:\n"


@dataclass(frozen=True)
class Site:
    """An example's project, deployed to the simulated clouds."""

    cli: Cli
    clouds: tuple[Provider, ...]

    def change(self, before: str, after: str) -> None:
        path = self.cli.folder / STACK_FILE.format(STACK)
        text = path.read_text()
        assert before in text, "the stack file no longer has this text"
        path.write_text(text.replace(before, after, 1))

    def up(self, *options: str) -> dict[str, list[tuple[str, Any]]]:
        """Updates the stack: (method, list) of each node group of t4-spot and each release of gpu-t4 that the clouds changed."""
        for cloud in self.clouds:
            cloud.asked.clear()
        self.cli.ok("up", "--stack", STACK, "--yes", "--skip-preview", "--suppress-progress", *options)
        calls = [call for cloud in self.clouds for call in cloud.asked if call.method in ("Create", "Update", "Delete")]
        spot = [call for call in calls if call.type == GROUP and "::usw2-t4-spot-" in call.urn]
        sets = [call for call in calls if call.type == RELEASE and call.urn.endswith("::usw2-gpu-t4-chart")]
        return {
            "groups": [(call.method, call.inputs["instanceTypes"]) for call in spot],
            "sets": [(call.method, dict(call.inputs["values"])["scaleSetLabels"]) for call in sets],  # type: ignore[call-overload]
        }

    def forget(self) -> None:
        """Makes the state one of a version that did not record the items of lists."""
        state = json.loads(self.cli.ok("stack", "export", "--stack", STACK).out)
        assert [each for each in state["deployment"]["resources"] if each.pop("replacementTrigger", None) is not None]
        file = self.cli.folder / "state.json"
        file.write_text(json.dumps(state))
        self.cli.ok("stack", "import", "--stack", STACK, "--file", str(file))


NOTHING: dict[str, list[object]] = {"groups": [], "sets": []}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with providers(("aws", "kubernetes")) as serving:
        cli = staging.existing(tmp_path_factory.mktemp("order"), serving)
        found = Site(cli, tuple(serving.values()))
        found.change(SET, SET + LABELS)
        found.up()
        yield found


def test_the_order_of_spot_types_and_labels_replaces_nothing_and_other_items_do(site: Site) -> None:
    site.forget()
    assert site.up() == NOTHING, "an upgrade from a version without the record"
    site.change(TYPES, "[g4dn.4xlarge, g4dn.2xlarge]")
    site.change("[gpu, cuda]", "[cuda, gpu]")
    assert site.up() == NOTHING, "another order"
    site.change("[g4dn.4xlarge, g4dn.2xlarge]", "[g4dn.8xlarge, g4dn.4xlarge]")
    site.change("[cuda, gpu]", "[fast, cuda]")
    site.cli.ok("preview", "--stack", STACK, "--suppress-progress")
    found = site.up()
    types, labels = ["g4dn.8xlarge", "g4dn.4xlarge"], ["fast", "cuda"]
    assert [call for call in found["groups"] if call[0] == "Create"] == [("Create", types)] * 2, "the list of the settings"
    assert [method for method, _ in found["groups"]].count("Delete") == 2
    assert [method for method, _ in found["sets"]] == ["Delete", "Create"], "one name: the old set goes first"
    assert found["sets"][1] == ("Create", labels)
    assert site.up() == NOTHING


def test_an_edit_at_once_with_the_upgrade_is_refused_and_not_lost(site: Site) -> None:
    site.forget()
    site.change("[g4dn.8xlarge, g4dn.4xlarge]", "[g4dn.8xlarge]")
    refused = site.cli("preview", "--stack", STACK, "--suppress-progress")
    assert refused.status != 0
    assert "the resource has g4dn.4xlarge, g4dn.8xlarge, and the settings have g4dn.8xlarge," in refused.text
    urns = [f"urn:pulumi:{STACK}::gpu-ci::gpu-ci:index:GpuNodeGroup${GROUP}::usw2-t4-spot-us-west-2{zone}-nodes" for zone in "ab"]
    # The program ends at the first error, of whichever group the engine answers first.
    assert any(f"pulumi up --replace '{urn}'" in refused.text for urn in urns)
    replaced = site.up(*(option for urn in urns for option in ("--replace", urn)))
    assert [call for call in replaced["groups"] if call[0] == "Create"] == [("Create", ["g4dn.8xlarge"])] * 2
    assert site.up() == NOTHING
