"""Jobs run while staging is edited: none ends that the plan with a base did not name. GPU_CI_EDITS=all runs every edit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

import gpu_ci.offline.plan
from tests.conftest import SUMMARY
from tests.world.editing import EVICTING, Site, Step, chosen, flowing
from tests.world.provided import missing, provided

pytestmark = [
    pytest.mark.world,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]
FEW = ("disk", "type added", "pool labels", "zone removed", "runner max", EVICTING)
"""What runs without GPU_CI_EDITS."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Staging with jobs."""
    with provided(tmp_path_factory.mktemp("edits")) as world, flowing(world) as made:
        yield made


@pytest.fixture(scope="module")
def steps(site: Site) -> list[Step]:
    """Each edit, applied and taken back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: {"all": "disabled"})
        made = []
        for step in site.run(chosen(FEW)):
            made.append(step)
            sys.stderr.write(f"{step}\n")
        return made


def test_no_job_ends_that_the_plan_did_not_name(
    site: Site, steps: list[Step], record_property: Callable[[str, object], None]
) -> None:
    assert {step.edit: step.ended for step in steps if step.ended and not step.said} == {}
    good, bad, again = site.flow.results()
    record_property(SUMMARY, f"{len(steps)} updates: {good} jobs succeeded, {bad} ended, {again} were assigned again")
