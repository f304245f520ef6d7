"""The project in `deployments/` on the real engine, Pulumi Cloud simulated: what the CLI hands over is what the plan reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from fleet.loading import stackfile
from fleet.loading.deployments import NAMESPACE
from offline.record import Recording, record
from tests.engine.cli import STACK_FILE, Cli, copy_project, environment
from tests.engine.provider import Provider, attach, providers

pytestmark = pytest.mark.engine

STACK = "main"
KEY = "ociPrivateKey"
CLEAR = "clear-text-of-the-oci-key"


@dataclass(frozen=True)
class Site:
    """The project on a file backend, the simulated Pulumi Cloud, and the state after two updates."""

    cli: Cli
    cloud: Provider
    state: str

    @property
    def recording(self) -> Recording:
        """What the offline recorder makes of the same files."""
        return record(self.cli.folder / "__main__.py", stackfile.load(STACK, self.cli.folder), preview=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    base = tmp_path_factory.mktemp("deployments")
    folder = copy_project(base / "project") / "deployments"
    with providers(("pulumiservice",)) as serving:
        cli = Cli(folder, environment(base / "home", attach(serving)))
        cli.ok("stack", "init", STACK, "--secrets-provider", "passphrase")
        cli.ok("config", "set", "--stack", STACK, "--secret", KEY, given=CLEAR)
        cli.ok("preview", "--stack", STACK, "--suppress-progress")
        cli.ok("up", "--stack", STACK, "--yes", "--suppress-progress")
        cli.ok("up", "--stack", STACK, "--yes", "--suppress-progress", "--expect-no-changes")
        yield Site(cli, serving["pulumiservice"], cli.ok("stack", "export", "--stack", STACK).out)


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
    assert CLEAR not in site.state
    assert CLEAR not in (site.cli.folder / STACK_FILE.format(STACK)).read_text()
    assert [outcome for outcome in site.cli.history if CLEAR in outcome.out + outcome.err] == []


def test_a_key_that_nothing_names_is_told_in_one_line(site):
    site.cli.ok("config", "set", "--stack", STACK, "ownr", "acme")
    outcome = site.cli("preview", "--stack", STACK, "--suppress-progress")
    site.cli.ok("config", "rm", "--stack", STACK, "ownr")
    assert outcome.status != 0
    known = f"organization, repository, branch, policyPack, stacks, {KEY}"
    assert f"error: {NAMESPACE}:ownr: unknown key; known keys: {known}" in outcome.text
    assert "Traceback" not in outcome.text
