"""The steps of Pulumi in the procedure that `offline arc-upgrade` prints, on the engine with a simulated cloud."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.render.arc import CHART, SETS, upgrade
from tests.engine import staging
from tests.engine.cli import Cli
from tests.engine.live import Asked
from tests.engine.provider import Provider

pytestmark = pytest.mark.engine

OLD, NEW = "0.14.2", "0.15.0"
RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The staging stack of the old version, deployed."""
    with staging.built(tmp_path_factory.mktemp("arc")) as built:
        built.cli.ok("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
        yield built


def changes(kubernetes: Provider) -> list[Asked]:
    """What the engine changed in the cluster, in its order."""
    return [each for each in kubernetes.asked if each.method in ("Create", "Update", "Delete") and not each.preview]


def state(cli: Cli) -> set[str]:
    exported = json.loads(cli.ok("stack", "export", "--stack", staging.STACK).out)
    return {each["urn"] for each in exported["deployment"]["resources"]}


def test_the_sets_go_alone_then_the_controller_changes_and_then_the_sets_come(site):
    fleet = fleet_of(stackfile.load(staging.STACK, site.cli.folder))
    script = upgrade(fleet, staging.STACK, OLD, NEW)
    (destroy,) = (shlex.split(line)[1:] for line in script if line.startswith("pulumi destroy"))
    kubernetes = site.serving["kubernetes"]
    before = state(site.cli)
    sets = {urn for urn in before if RELEASE in urn and re.search(r"::usw2-gpu-t4(-release)?-chart$", urn)}
    assert len(sets) == 2

    kubernetes.asked.clear()
    site.cli.ok(*destroy, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    gone = before - state(site.cli)
    assert sets <= gone
    rights = {urn for urn in gone - sets if "$kubernetes:rbac.authorization.k8s.io/v1:Role" in urn and "-sweeps." in urn}
    assert gone == sets | rights, "besides the releases only the sweeps' rights in their namespaces: no namespace, no Secret"
    assert {each.method for each in changes(kubernetes)} == {"Delete"}

    pins = site.cli.folder / "fleet" / "facts" / "data" / "versions.toml"
    text = pins.read_text()
    for chart in (SETS, CHART):
        text, count = re.subn(rf'(\[charts\.{chart}\]\nrepository = "[^"]+"\nversion = ")[^"]+', rf"\g<1>{NEW}", text)
        assert count == 1
    pins.write_text(text)
    kubernetes.asked.clear()
    site.cli.ok("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    done = changes(kubernetes)
    assert "Delete" not in {each.method for each in done}, "nothing is replaced while it exists"
    releases = [(each.method, each.urn.rpartition("::")[2]) for each in done if each.type == RELEASE]
    assert releases[0] == ("Update", "usw2-arc-chart"), "the controller comes first"
    assert set(releases[1:]) == {("Create", "usw2-gpu-t4-chart"), ("Create", "usw2-gpu-t4-release-chart")}
    assert {each.inputs["version"] for each in done if each.type == RELEASE} == {NEW}
    assert state(site.cli) == before, "everything is there again"
