"""No command destroys a part of a stack with a protected cluster, and an ordinary `up` still removes a pool of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.providers.fleet import guard_urn
from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

UP = ("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress")
PROTECT = "      protect: true\n"
RELEASE_POOL = "        t4-release:\n"
RELEASE_SET, SET_END = "        # Reached by its name only", "          scale: {min: 0, max: 2}\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The staging stack with `protect`, deployed."""
    with staging.built(tmp_path_factory.mktemp("guard")) as built:
        edit(built.cli, "      health: {}\n", "      health: {}\n" + PROTECT)
        built.cli.ok(*UP, timeout=600)
        yield built


def edit(cli: Cli, old: str, new: str) -> None:
    file = cli.folder / STACK_FILE.format(staging.STACK)
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def state(cli: Cli) -> list[dict[str, Any]]:
    exported = json.loads(cli.ok("stack", "export", "--stack", staging.STACK).out)
    found: list[dict[str, Any]] = exported["deployment"].get("resources", [])
    return found


def deleted(site: Site) -> list[str]:
    return [each.urn for provider in site.serving.values() for each in provider.asked if each.method == "Delete"]


def test_a_protected_stack_is_destroyed_as_a_whole_or_not_at_all(site: Site) -> None:
    before = state(site.cli)
    guard = next(each for each in before if each["urn"] == guard_urn(staging.STACK))
    leaves = {each["urn"] for each in before if each.get("custom")}
    needed = {
        urn
        for each in before
        if each is not guard
        for urn in (*each.get("dependencies", ()), each.get("parent"), each.get("provider", "").rpartition("::")[0])
    }
    unseen = leaves - needed - set(guard["dependencies"])
    assert all("control-plane" in urn for urn in unseen), "only what is inside the control plane, which inherits its protection"

    for options, said in (
        (("--skip-preview",), "You must run with the `--run-program` flag to use delete hooks during destroy"),
        (("--skip-preview", "--run-program"), "usw2: protect is true, so nothing of stack staging is destroyed"),
    ):
        outcome = site.cli("destroy", "--stack", staging.STACK, "--yes", *options, "--suppress-progress", timeout=600)
        assert outcome.status != 0
        assert said in outcome.text, outcome
        assert deleted(site) == []
    assert {each["urn"] for each in state(site.cli)} == {each["urn"] for each in before}

    text = (site.cli.folder / STACK_FILE.format(staging.STACK)).read_text()
    edit(site.cli, text[text.index(RELEASE_POOL) : text.index("      runners:\n")], "")
    edit(site.cli, text[text.index(RELEASE_SET) : text.index(SET_END) + len(SET_END)], "")
    site.cli.ok(*UP, timeout=600)
    assert {urn.rpartition("::")[2] for urn in deleted(site)} >= {"usw2-t4-release-us-west-2a-nodes", "usw2-gpu-t4-release-chart"}

    edit(site.cli, PROTECT, "")
    site.cli.ok(*UP, timeout=600)
    assert guard["urn"] not in {each["urn"] for each in state(site.cli)}
    site.cli.ok("destroy", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    assert state(site.cli) == []
