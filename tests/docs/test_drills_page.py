"""The table of docs/drills.md is made from the committed record of the drills and their texts."""

from __future__ import annotations

import json
from typing import Any

from gpu_ci.world.faults import DRILLS
from tests.docs.markdown import ROOT, assert_written

RUN = json.loads((ROOT / "docs/world/drills-staging.json").read_text())
RECORD = RUN["drills"]


def row(found: dict[str, Any]) -> str:
    """A row of the table."""
    drill = DRILLS[found["drill"]]
    freed = "" if found["freed"] is None else f"; {found['freed']:.0f} of them after the way out"
    alerts = ", ".join(f"`{name}`" for name in found["alerts"])
    return f"| `{drill.name}` | {drill.what} | {drill.sees} | {found['seconds']:.0f}{freed} | {found['lost']} | {alerts} |\n"


def test_the_table_has_what_the_record_has():
    head = (
        "| drill | what happens | what a user sees | seconds until it heals | jobs lost | alerts |\n|---|---|---|---|---|---|\n"
    )
    assert_written(ROOT / "docs/drills.md", "drills:staging", head + "".join(map(row, RECORD)))


def test_the_record_is_of_one_run_in_which_every_drill_went_as_it_should():
    assert [found["drill"] for found in RECORD] == [*DRILLS]
    assert {found["drill"]: found["against"] for found in RECORD if found["against"]} == {}
    assert {check: against for check, against in RUN["checks"].items() if against != "holds"} == {}
