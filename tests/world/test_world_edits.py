"""Jobs run while staging is edited: none ends that the plan with a base did not name.

GPU_CI_EDITS names other edits than the few, or `all`: that takes half an hour. With GPU_CI_RENEW too it adds them to the record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

import gpu_ci.offline.plan
from gpu_ci.app import write_record
from tests.conftest import SUMMARY
from tests.world.edit_record import RECORD, Run
from tests.world.editing import EVICTING, chosen, flowing
from tests.world.provided import missing, provided

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]
FEW = ("disk", "type added", "pool labels", "zone removed", "runner max", EVICTING)
"""What runs without GPU_CI_EDITS."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Each edit, applied to staging and taken back, with jobs."""
    earlier = json.loads(RECORD.read_text()) if RECORD.exists() else {"steps": []}

    def keep(run: Run) -> None:
        """A long run may be cut short."""
        if os.environ.get("GPU_CI_RENEW"):
            write_record(RECORD, run.after(earlier).document())

    with pytest.MonkeyPatch.context() as patch, provided(tmp_path_factory.mktemp("edits")) as world, flowing(world) as site:
        patch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: {"all": "disabled"})
        return site.run(chosen(FEW), keep)


def test_jobs_go_on_while_staging_is_edited(run: Run, record_property: Callable[[str, object], None]) -> None:
    assert {check.claim: check.against for check in run.checks() if check.against} == {}
    counts = run.document()["jobs"]
    assert counts["ran"] > 2 * len(run.steps), "jobs hardly run"
    record_property(SUMMARY, f"{len(run.steps)} updates with jobs: {counts['ran']} succeeded, {counts['ended']} ended")


def test_an_update_that_may_evict_is_seen_to_end_jobs(run: Run) -> None:
    evicting = [step for step in run.steps if step.edit == EVICTING]
    assert all(step.ended for step in evicting), "the count of ended jobs shows nothing"
