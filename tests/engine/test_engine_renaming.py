"""Renames of the deployed staging stack: with `was` no operation remains, without it the pool is another one."""

from __future__ import annotations

import pytest

from tests.edits import STAGING
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.staging import Site
from tests.engine.verdicts import STREAMED, events

pytestmark = pytest.mark.engine

RENAMES = ("pool renamed with was", "runner renamed with was", "cluster renamed with was")


def _renamed(site: Site, name: str) -> Cli:
    """A copy of the project whose stack file renames a pool, a class and the cluster."""
    cli = site.variant(name)
    file = cli.folder / STACK_FILE.format(site.stack)
    text = file.read_text()
    for before, after in (part for edit in RENAMES for part in STAGING[edit]):
        assert text.count(before) == 1
        text = text.replace(before, after)
    file.write_text(text)
    return cli


def _operations(cli: Cli, site: Site) -> dict[str, set[str]]:
    """The names of the resources by what a preview does to them."""
    preview = cli.having(**STREAMED)("preview", "--stack", site.stack, "--json", "--suppress-progress")
    assert preview.status == 0, preview
    found: dict[str, set[str]] = {}
    for step in (event["metadata"] for event in events(preview, "resourcePreEvent")):
        found.setdefault(step["op"], set()).add(step["urn"].rpartition("::")[2])
    return found


def test_renames_with_was_leave_every_resource_as_it_is(site, update):
    cli = _renamed(site, "renamed")
    assert {*_operations(cli, site)} <= {"same", "refresh"}
    cli.ok("up", "--stack", site.stack, "--yes", "--skip-preview", "--suppress-progress", "--expect-no-changes", timeout=600)
    assert {*_operations(cli, site)} <= {"same", "refresh"}
    assert {each["urn"] for each in site.deployment().resources} == {each["urn"] for each in update.resources}


def test_without_was_a_renamed_pool_is_another_one_and_the_groups_of_the_first_leave(site, update):
    cli = _renamed(site, "forgotten")
    file = cli.folder / STACK_FILE.format(site.stack)
    file.write_text(file.read_text().replace("          was: t4-spot\n", ""))
    found = _operations(cli, site)
    zones = ("us-west-2a", "us-west-2b", "us-west-2c")
    assert {f"usw2-t4-cheap-{zone}-nodes" for zone in zones} <= found["create"]
    assert {f"usw2-t4-spot-{zone}-nodes" for zone in zones} <= found["update"]
