"""docs/rerun.md says what the action and the model checker do."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from tests.builders import ROOT
from tests.rerun.checker import PROPERTIES
from tests.rerun.world import ACTION, ENDS, KILLED

PAGE = (ROOT / "docs" / "rerun.md").read_text()
FLAT = " ".join(PAGE.split())


def workflow() -> Any:
    """The workflow that the page shows."""
    (text,) = re.findall(r"```yaml\n( +on:\n.*?) +```", PAGE, re.DOTALL)
    return YAML(typ="safe", pure=True).load(text)


def test_the_workflow_of_the_page_is_ours_for_another_repository():
    shown = workflow()
    ours = YAML(typ="safe", pure=True).load(ROOT / ".github" / "workflows" / "rerun.yml")
    for held in (shown, ours):
        held["on"]["workflow_run"]["workflows"] = held["jobs"]["rerun"]["steps"][0]["uses"] = "…"
        held["jobs"]["rerun"]["steps"][0]["with"].update(workflows="…", labels="…")
    job = ours["jobs"]["rerun"]
    assert (job.pop("name"), job.pop("timeout-minutes"), ours.pop("name")) == ("rerun", 15, "rerun")
    assert shown == ours


def test_every_annotation_that_decides_is_on_the_page():
    quoted = [text.partition("…")[0].strip() for text in re.findall(r"`((?:The|Canceling) .+?)`", PAGE)]
    for _, pattern in ACTION.CAUSES:
        assert any(re.match(pattern.partition("(")[0], text) for text in quoted), pattern
    for end in sorted(KILLED):
        assert any(note.startswith(text) for text in quoted for note in ENDS[end].annotations), end


def test_every_property_is_named():
    said = FLAT.partition("prints what it checked: ")[2]
    assert said.partition(".")[0].split(", ") == list(PROPERTIES)
