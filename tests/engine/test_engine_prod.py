"""The production stack on the real engine, EKS and OCI: against the offline plan, a second update, edits, what destroys it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpu_ci.offline.recording import Recording
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.compare import deployed, graph_differences, input_differences, on_default_provider, planned
from tests.engine.staging import Deployment, Site
from tests.engine.verdicts import STREAMED, events

pytestmark = pytest.mark.engine

STACK = "prod"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The stack, not yet deployed."""
    with staging.built(tmp_path_factory.mktemp("prod"), STACK) as built:
        yield built


@pytest.fixture(scope="module")
def plan(site: Site) -> Recording:
    return staging.recorded(site.cli.folder, STACK)


@pytest.fixture(scope="module")
def previewed(site: Site) -> dict[str, object]:
    """The summary of its first preview under the policies."""
    outcome = site.cli.having(**STREAMED)(*staging.preview(STACK), "--json")
    assert outcome.status == 0, outcome
    (summary,) = events(outcome, "summaryEvent")
    return summary


@pytest.fixture(scope="module")
def update(site: Site, previewed: dict[str, object]) -> Deployment:
    site.up()
    return site.deployment()


def test_a_preview_under_the_policies_succeeds(previewed, plan):
    assert previewed["resourceChanges"] == {"create": len(plan.resources) + 2}, "and two children of the control plane"


def test_the_engine_asks_providers_for_what_the_plan_shows(update, site, plan):
    asked = site.checked(preview=False)
    expected = {found.urn: found for found in plan.resources if found.provider and not found.remote}
    assert expected.keys() <= asked.keys()
    differences = {urn: input_differences(found.inputs, asked[urn], exact=False) for urn, found in expected.items()}
    assert {urn: lines for urn, lines in differences.items() if lines} == {}


def test_the_state_holds_the_plans_resources_parents_and_dependencies(update, plan):
    remote = [found.urn for found in plan.resources if found.remote]
    (line,) = graph_differences(planned(plan), deployed(update.resources, remote))
    # A plan makes no request for a kubeconfig, and so it does not see that the answer hangs on the cluster.
    assert "::sjc-kubernetes:" in line
    assert "depends only in the plan on []" in line
    assert re.search(r"only in the state on \['[^']*::sjc-control-plane'\]$", line)
    assert on_default_provider(update.resources) == []


def test_what_the_state_holds_is_what_the_clouds_have(update, site):
    leaves = [each for each in update.resources if each["custom"] and not each["type"].startswith("pulumi:")]
    assert sorted((each["type"], each["id"]) for each in leaves) == sorted((each.type, each.id) for each in site.cloud.live())


def test_a_second_update_changes_nothing(update, site):
    site.cloud.asked.clear()
    site.up("--expect-no-changes")
    changed = [str(call) for call in site.cloud.asked if call.method in ("Create", "Update", "Delete")]
    assert changed == []


def test_without_protection_a_destroy_leaves_the_files_of_a_cache_and_nothing_else(update, site):
    file = site.cli.folder / STACK_FILE.format(STACK)
    file.write_text(file.read_text().replace("protect: true", "protect: false"))
    site.up()
    site.cli.ok("destroy", "--stack", STACK, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    assert site.deployment().resources == []
    assert [live.type for live in site.cloud.live()] == ["aws:efs/fileSystem:FileSystem"], "Pulumi retains the files of a cache"
