"""docs/rerun.md says what the action and the model checker do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from ruamel.yaml import YAML

from tests.builders import ROOT
from tests.rerun.checker import PROPERTIES
from tests.rerun.world import ACTION, ENDS, KILLED

PAGE = (ROOT / "docs" / "rerun.md").read_text()
FLAT = " ".join(PAGE.split())


def workflows(name: str, first: str) -> tuple[Any, Any]:
    """The workflow that the page shows below this line, and ours."""
    (text,) = re.findall(rf"```yaml\n( +{first}\n.*?) +```", PAGE, re.DOTALL)
    yaml = YAML(typ="safe", pure=True)
    return yaml.load(text), yaml.load(ROOT / ".github" / "workflows" / name)


def test_the_workflow_of_the_page_is_ours_for_another_repository():
    shown, ours = workflows("rerun.yml", "on:")
    for held in (shown, ours):
        held["on"]["workflow_run"]["workflows"] = held["jobs"]["rerun"]["steps"][0]["uses"] = "…"
        held["jobs"]["rerun"]["steps"][0]["with"].update({"workflows": "…", "labels": "…", "wake-labels": "…"})
    job = ours["jobs"]["rerun"]
    assert (job.pop("name"), job.pop("timeout-minutes"), ours.pop("name")) == ("rerun", 30, "rerun")
    assert shown == ours


def test_the_wake_of_the_page_is_ours():
    shown, ours = workflows("wake.yml", "name: wake")
    assert ours["jobs"]["wake"].pop("name") == "wake"
    assert shown == ours


def test_the_page_has_the_numbers_of_the_action():
    action = YAML(typ="safe", pure=True).load(ROOT / ".github" / "actions" / "rerun-once" / "action.yml")
    minutes = action["inputs"]["wake-minutes"]["default"]
    assert f"`wake-minutes` ({minutes})" in FLAT
    assert (ACTION.MOST_WAKES, "after two wakes" in FLAT, "nor of two wakes" in FLAT) == (2, True, True)
    most = 2 * timedelta(minutes=int(minutes)) + ACTION._ROUND
    assert f'at most {most // timedelta(minutes=1)} minutes with `wake-minutes: "{minutes}"`' in FLAT
    assert timedelta(minutes=2) == ACTION._ROUND
    assert "looks every two minutes" in FLAT


def test_every_annotation_that_decides_is_on_the_page():
    quoted = [text.partition("…")[0].strip() for text in re.findall(r"`((?:The|Canceling) .+?)`", PAGE)]
    for _, pattern in ACTION.CAUSES:
        assert any(re.match(pattern.partition("(")[0], text) for text in quoted), pattern
    for end in sorted(KILLED):
        assert any(note.startswith(text) for text in quoted for note in ENDS[end].annotations), end


def test_every_property_is_named():
    said = FLAT.partition("prints what it checked: ")[2]
    assert said.partition(".")[0].split(", ") == list(PROPERTIES)
