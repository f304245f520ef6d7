"""A stack of a released version takes today's program: nothing goes or is replaced that the changelog does not name."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders import ROOT, with_pods
from tests.engine import staging
from tests.engine.live import Live
from tests.engine.operations import seen
from tests.engine.provider import scope
from tests.engine.staging import Site
from tests.engine.state import opened
from tests.engine.verdicts import STREAMED
from tests.states.record import FOLDER, KEY, read

pytestmark = pytest.mark.engine

STATES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.json.gz"))
GROUP, PLANE, RELEASE = "aws:eks/nodeGroup:NodeGroup", "aws:eks/cluster:Cluster", "kubernetes:helm.sh/v3:Release"
FILES = ("aws:efs/fileSystem:FileSystem", "kubernetes:core/v1:PersistentVolumeClaim", "oci:FileStorage/fileSystem:FileSystem")
QUIET = (GROUP, "aws:ec2/launchTemplate:LaunchTemplate", "oci:ContainerEngine/nodePool:NodePool", f"ArcRunnerSet${RELEASE}")
"""Even an update in place of these may end jobs: it rolls nodes, or it makes listeners and runners again."""


@dataclass(frozen=True)
class Upgrade:
    """A preview and an update of a released version's stack: what they did, by URN, and the ids before and after."""

    site: Site
    previewed: dict[str, str]
    done: dict[str, set[str]]
    before: dict[str, str]
    after: dict[str, str]

    @property
    def disturbed(self) -> set[str]:
        """URNs of what the update created or deleted, or updated although it should rest."""
        return {urn for urn, calls in self.done.items() if calls != {"Update"} or _kind(urn).endswith(QUIET)}


def _kind(urn: str) -> str:
    return urn.split("::")[2]


def _ids(site: Site) -> dict[str, str]:
    return {each["urn"]: each["id"] for each in site.deployment().resources if each["custom"]}


def put_back(site: Site, state: str) -> None:
    """Gives the stack a state, and the simulated clouds what it has. Their providers then find it."""
    file = site.cli.folder / "state.json"
    file.write_bytes(read(state))
    site.cli.ok("stack", "import", "--stack", site.stack, "--file", str(file))
    resources: list[dict[str, Any]] = json.loads(site.deployment().opened)["deployment"]["resources"]
    scopes = {f"{each['urn']}::{each['id']}": scope(each["inputs"]) for each in resources if "pulumi:providers:" in each["type"]}
    leaves = [each for each in resources if each["custom"] and not each["type"].startswith("pulumi:")]
    for number, each in enumerate(leaves, 1):
        sides = opened(each["inputs"]), opened(each["outputs"])
        site.cloud.restore(each["urn"], Live(each["type"], each["id"], scopes[each["provider"]], number, *sides))


@pytest.fixture(scope="module", params=STATES)
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def upgrade(state: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrade]:
    stack = Path(state).name.removesuffix(".json.gz")
    # Prod had a pool on OKE then, and somebody's own stack has it still.
    change = with_pods if stack == "prod" else str
    with staging.built(tmp_path_factory.mktemp("upgrade"), stack, change=change) as site:
        site.cli.ok("config", "set", "--stack", site.stack, "--secret", staging.KEY, given=KEY)
        put_back(site, state)
        before = _ids(site)
        preview = site.cli.having(**STREAMED)("preview", "--stack", site.stack, "--json", "--suppress-progress")
        previewed = {urn: operation for urn, operation in seen(preview).operations.items() if operation != "same"}
        site.cloud.asked.clear()
        site.up()
        done: dict[str, set[str]] = {}
        for call in site.cloud.asked:
            if call.method in ("Create", "Update", "Delete"):
                done.setdefault(call.urn, set()).add(call.method)
        yield Upgrade(site, previewed, done, before, _ids(site))


def named(file: str, state: str) -> dict[str, str]:
    """The words of the changelog by the logical name that a data file has for a state."""
    content: dict[str, str] = tomllib.loads((FOLDER / file).read_text())
    prefix = state.removesuffix(".json.gz") + "/"
    return {key.removeprefix(prefix): words for key, words in content.items() if key.startswith(prefix)}


def test_the_state_has_what_an_upgrade_must_keep(upgrade):
    kinds = {_kind(urn).rpartition("$")[2] for urn in upgrade.before}
    assert kinds >= {GROUP, PLANE, RELEASE}
    assert upgrade.site.stack != "prod" or kinds & set(FILES)


def test_the_update_replaces_and_deletes_what_the_data_names(upgrade, state):
    replaced, gone = named("replaced.toml", state), named("gone.toml", state)
    assert {urn.rpartition("::")[2] for urn in upgrade.disturbed if urn in upgrade.before} == {*replaced, *gone}
    assert {urn.rpartition("::")[2] for urn in upgrade.before.keys() - upgrade.after.keys()} == set(gone)


def test_the_changelog_names_each_of_them(state):
    changelog = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    missing = {
        name: words
        for file in ("replaced.toml", "gone.toml")
        for name, words in named(file, state).items()
        if words not in changelog
    }
    assert missing == {}


def test_everything_else_keeps_its_id(upgrade, state):
    kept = upgrade.before.keys() - upgrade.disturbed
    assert {urn: upgrade.after.get(urn) for urn in kept} == {urn: upgrade.before[urn] for urn in kept}
    updated = {urn for urn in upgrade.disturbed if upgrade.done[urn] == {"Update"}}
    told = {urn for urn in updated if urn.rpartition("::")[2] in named("replaced.toml", state)}
    assert not [urn for urn in upgrade.disturbed - told if _kind(urn).endswith((*QUIET, PLANE, *FILES))]


def test_the_preview_says_what_the_update_does(upgrade):
    operations = {("Create",): "create", ("Update",): "update", ("Delete",): "delete", ("Create", "Delete"): "replace"}
    # No provider hears of a component.
    previewed = {urn: what for urn, what in upgrade.previewed.items() if "gpu-ci:" not in _kind(urn).rpartition("$")[2]}
    assert {urn: operations[tuple(sorted(calls))] for urn, calls in upgrade.done.items()} == previewed


def test_a_second_update_changes_nothing(upgrade):
    upgrade.site.cloud.asked.clear()
    upgrade.site.up("--expect-no-changes")
    assert [str(call) for call in upgrade.site.cloud.asked if call.method in ("Create", "Update", "Delete")] == []
