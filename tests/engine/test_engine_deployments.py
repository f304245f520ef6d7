"""The project in `deployments/` on the real engine, Pulumi Cloud simulated: what the CLI hands over is what the plan reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pytest

from fleet.loading.deployments import NAMESPACE
from tests.engine.cli import MAIN, STACK_FILE, Site, deployed

pytestmark = pytest.mark.engine

KEY = "ociPrivateKey"
CLEAR = "clear-text-of-the-oci-key"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with deployed(tmp_path_factory.mktemp("deployments"), "deployments", "pulumiservice", **{KEY: CLEAR}) as found:
        yield found


def plain(inputs: Mapping[str, object]) -> dict[str, object]:
    """Inputs as JSON has them, without the hash that the engine adds to an asset."""
    text = json.dumps(dict(inputs))
    parsed: dict[str, object] = json.loads(re.sub(r'"hash": "[0-9a-f]{64}", ', "", text))
    return parsed


def test_the_engine_checks_the_inputs_that_were_recorded(site):
    seen = site.cloud.checked(preview=False)
    recorded = {resource.urn: resource for resource in site.recording.resources[1:]}
    assert seen.keys() == recorded.keys()
    for urn, resource in recorded.items():
        assert plain(seen[urn]) == plain(resource.inputs), urn


def test_the_secret_is_nowhere_in_clear(site):
    assert CLEAR not in site.cli.ok("stack", "export", "--stack", MAIN).out
    assert CLEAR not in (site.cli.folder / STACK_FILE.format(MAIN)).read_text()
    assert [outcome for outcome in site.cli.history if CLEAR in outcome.out + outcome.err] == []


def test_a_key_that_nothing_names_is_told_in_one_line(site):
    site.cli.ok("config", "set", "--stack", MAIN, "ownr", "acme")
    outcome = site.cli("preview", "--stack", MAIN, "--suppress-progress")
    site.cli.ok("config", "rm", "--stack", MAIN, "ownr")
    assert outcome.status != 0
    known = f"organization, repository, branch, policyPack, stacks, {KEY}"
    assert f"error: {NAMESPACE}:ownr: unknown key; known keys: {known}" in outcome.text
    assert "Traceback" not in outcome.text
