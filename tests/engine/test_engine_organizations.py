"""Two GitHub Apps of one stack on the engine: each runner set gets the key of its own App, and the state has none in clear."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.provider import providers

pytestmark = pytest.mark.engine

RESEARCH = "clear-text-of-the-key-of-the-second-app"
SCOPES = """\
  gpu-ci:github:
    scopes:
      research: {url: "https://github.com/example-research", appId: "234567", installationId: "23456789", group: lab}
"""
CLASS = """\
      runners:
        gpu-research:
          github: research
          pool: t4-release
          cpu: {request: 4, limit: 8}
          memory: {request: 16Gi, limit: 24Gi}
          scale: {min: 0, max: 1}
"""


def test_each_set_gets_its_own_key_and_the_state_has_none_in_clear(tmp_path: Path) -> None:
    with providers(("aws", "kubernetes")) as serving:
        site = staging.Site(staging.existing(tmp_path, serving), serving, staging.EXISTING)
        file = site.cli.folder / STACK_FILE.format(staging.EXISTING)
        for before, after in (("  gpu-ci:github:\n", SCOPES), ("      runners:\n", CLASS)):
            assert file.read_text().count(before) == 1
            file.write_text(file.read_text().replace(before, after))
        failed = site.cli("up", "--stack", site.stack, "--yes", "--skip-preview", "--suppress-progress")
        assert failed.status != 0
        assert "gpu-ci:githubPrivateKey-research" in failed.text, "the missing key is named"
        site.cli.ok("config", "set", "--stack", site.stack, "--secret", f"{staging.KEY}-research", given=RESEARCH)
        site.up()
        secrets = {
            live.inputs["metadata"]["namespace"]: str(live.inputs)
            for live in serving["kubernetes"].cloud.live("kubernetes:core/v1:Secret")
            if live.inputs["metadata"]["name"].startswith("github-app")
        }
        assert {space for space, text in secrets.items() if RESEARCH in text} == {"runners-gpu-research"}
        assert {space for space, text in secrets.items() if staging.CLEAR in text} == secrets.keys() - {"runners-gpu-research"}
        state = site.deployment()
        site.cli.ok("config", "rm", "--stack", site.stack, f"{staging.KEY}-research")
        text = file.read_text()
        for entry in (SCOPES.partition("\n")[2], "          github: research\n"):
            assert text.count(entry) == 1
            text = text.replace(entry, "")
        file.write_text(text)
        serving["kubernetes"].asked.clear()
        site.up()
        calls = [(call.method, call.urn.rpartition("::usw2-gpu-research-")[2]) for call in serving["kubernetes"].asked]
    order = [call for call in calls if call[0] in ("Create", "Delete") and call[1].startswith(("github-app", "chart"))]
    assert order == [
        ("Create", "github-app"),
        ("Delete", "chart"),
        ("Create", "chart"),
        ("Delete", "github-app-research"),
    ], "ARC removes the old set from its organization with the old App's key"
    for key in (staging.CLEAR, RESEARCH):
        assert key in state.opened
        assert key not in state.export
        assert key not in file.read_text()
        assert not [outcome for outcome in site.cli.history if key in outcome.out], "no output shows it"
