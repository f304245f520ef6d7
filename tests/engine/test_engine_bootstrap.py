"""The project in `bootstrap/` on the real engine, AWS simulated: the CLI hands over the settings that the recorder reads."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

import pytest

from bootstrap.config import NAMESPACE
from bootstrap.rights import state_objects
from tests.engine.cli import MAIN, Site, deployed

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with deployed(tmp_path_factory.mktemp("bootstrap"), "bootstrap", "aws") as found:
        yield found


def test_the_engine_checks_what_was_recorded(site):
    seen = site.cloud.checked(preview=False)
    recorded = {each.urn: each for each in site.recording.resources[1:] if not each.type.startswith("pulumi:providers:")}
    assert seen.keys() == recorded.keys()
    for urn, resource in recorded.items():
        for key in ("assumeRolePolicy", "url", "clientIdLists"):
            assert seen[urn].get(key) == resource.inputs.get(key), urn


def test_a_backend_writes_no_object_that_its_stack_may_not_write(site):
    state = site.cli.folder.parent.with_name("home") / "state"
    names = {path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file()}
    patterns = state_objects(NAMESPACE, MAIN)
    foreign = {name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)}
    # The file backend has attributes of each object in a file beside it; S3 has none.
    assert {name.removesuffix(".attrs") for name in foreign} == {".pulumi/meta.yaml"}
    assert len(names) > 5, "nothing was written"
    folders = {path.relative_to(state).as_posix() for path in (state / ".pulumi" / "locks").rglob("*") if path.is_dir()}
    assert f".pulumi/locks/organization/{NAMESPACE}/{MAIN}" in folders


def test_a_wrong_account_is_one_line(site):
    site.cli.ok("config", "set", "--stack", MAIN, "account", "12")
    outcome = site.cli("preview", "--stack", MAIN, "--suppress-progress")
    site.cli.ok("config", "set", "--stack", MAIN, "account", "123456789012")
    assert outcome.status != 0
    assert f"error: {NAMESPACE}:account: an AWS account is 12 quoted digits" in outcome.text
    assert "Traceback" not in outcome.text
