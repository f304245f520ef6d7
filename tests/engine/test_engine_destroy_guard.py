"""No command destroys a part of a protected stack. docs/destroy.md destroys it on purpose: its commands run here, as written."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from fleet.providers.fleet import guard_urn
from tests.builders import ROOT
from tests.docs.markdown import assert_written, section
from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli
from tests.engine.provider import Provider
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

PAGE = ROOT / "docs" / "destroy.md"
UP = ("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress")
PROTECT, OPEN = "      protect: true\n", "      protect: false\n"
RELEASE_POOL = "        t4-release:\n"
RELEASE_SET, SET_END = "        # Reached by its name only", "          scale: {min: 0, max: 2}\n"
VPC, NODES = "usw2-network-vpc", "usw2-t4-ondemand-us-west-2b-nodes"


class InTheWay:
    """Refuses to delete what another thing in the cloud still uses. `names` are logical names."""

    def __init__(self, delete: Callable[[Provider, Any, Any], Any]) -> None:
        self.names: set[str] = set()
        self._delete = delete

    def __call__(self, provider: Provider, request: Any, context: Any) -> Any:
        if request.urn.rpartition("::")[2] in self.names:
            context.abort(grpc.StatusCode.UNKNOWN, "DependencyViolation: it has dependencies and cannot be deleted")
        return self._delete(provider, request, context)


@pytest.fixture(scope="module")
def in_the_way() -> Iterator[InTheWay]:
    refuses = InTheWay(Provider.Delete)

    def delete(provider: Provider, request: Any, context: Any) -> Any:
        return refuses(provider, request, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Provider, "Delete", delete)
        yield refuses


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, in_the_way: InTheWay) -> Iterator[Site]:
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


def leave(site: Site) -> None:
    """A removed runner set leaves with the update after the one that removed it, once its quota counts no pod."""
    (quota,) = site.cloud.live("kubernetes:core/v1:ResourceQuota", lambda each: each.id == "runners-gpu-t4-release/runners")
    quota.outputs["status"] = {"used": {"pods": "0"}}
    site.cli.ok(*UP, timeout=600)


def written() -> list[tuple[str, ...]]:
    """The commands of Pulumi that the page gives for staging, in its order."""
    lines = re.findall(rf"^ *pulumi (.* -s {staging.STACK})$", section(PAGE, "on-purpose"), re.MULTILINE)
    return [tuple(shlex.split(line)) for line in lines]


def test_a_protected_stack_is_destroyed_as_a_whole_or_not_at_all(site: Site, in_the_way: InTheWay) -> None:
    before = state(site.cli)
    guard = next(each for each in before if each["urn"] == guard_urn(staging.STACK))
    leaves = {each["urn"] for each in before if each.get("custom")}
    needed = {
        urn
        for each in before
        if each is not guard
        for urn in (*each.get("dependencies", ()), each.get("parent"), each.get("provider", "").rpartition("::")[0])
    }
    # The engine declares the provider of its own types.
    own = {each["urn"] for each in before if each["type"] == "pulumi:providers:pulumi"}
    unseen = leaves - needed - own - set(guard["dependencies"])
    assert all("control-plane" in urn for urn in unseen), "only what is inside the control plane, which inherits its protection"

    rows = [("`pulumi up` with `protect: true`", len(before), 0)]
    seen, cloud = 0, sum(bool(each.get("custom")) and not each["type"].startswith("pulumi:") for each in before)

    def row(what: str) -> None:
        nonlocal seen
        rows.append((what, len(state(site.cli)), len(deleted(site)) - seen))
        seen = len(deleted(site))

    for options, said in (
        ((), "You must run with the `--run-program` flag to use delete hooks during destroy"),
        (("--skip-preview",), "You must run with the `--run-program` flag to use delete hooks during destroy"),
        (("--skip-preview", "--run-program"), "usw2: protect is true, so nothing of stack staging is destroyed"),
    ):
        outcome = site.cli("destroy", "--stack", staging.STACK, "--yes", *options, "--suppress-progress", timeout=600)
        assert outcome.status != 0
        assert said in outcome.text, outcome
        assert deleted(site) == []
        assert {each["urn"] for each in state(site.cli)} == {each["urn"] for each in before}
        row(f"`{' '.join(('pulumi destroy', *options))}`: refused")

    text = (site.cli.folder / STACK_FILE.format(staging.STACK)).read_text()
    edit(site.cli, text[text.index(RELEASE_POOL) : text.index("      runners:\n")], "")
    edit(site.cli, text[text.index(RELEASE_SET) : text.index(SET_END) + len(SET_END)], "")
    site.cli.ok(*UP, timeout=600)
    leave(site)
    assert {urn.rpartition("::")[2] for urn in deleted(site)} >= {"usw2-t4-release-us-west-2a-nodes", "usw2-gpu-t4-release-chart"}
    row("`pulumi up` twice without a pool and its runner set; the set has no pods")

    update, destroy, again = written()
    edit(site.cli, PROTECT, OPEN)
    site.cli.ok(*update, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    assert guard["urn"] not in {each["urn"] for each in state(site.cli)}
    row("step 3: `pulumi up` with `protect: false`")
    logs = [each["inputs"] for each in state(site.cli) if each["type"] == "aws:cloudwatch/logGroup:LogGroup"]
    assert [each["deletionProtectionEnabled"] for each in logs] == [False], "left out, it would stay on in the cloud"

    left = [len(state(site.cli))]
    for name in (NODES, VPC):
        in_the_way.names = {name}
        outcome = site.cli(*destroy, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
        assert outcome.status != 0
        assert "DependencyViolation" in outcome.text
        assert name in {each["urn"].rpartition("::")[2] for each in state(site.cli)}
        left.append(len(state(site.cli)))
    assert left[0] > left[1] > left[2] > 0, "each run deletes what it can"
    in_the_way.names = set()
    site.cli.ok(*again, "--yes", "--skip-preview", "--suppress-progress", timeout=600)
    row("steps 4 and 5: `pulumi destroy` three times; the cloud first refuses to delete a node group, then the VPC")
    assert state(site.cli) == []
    again_made = {urn.partition("$")[2].partition("::")[0] for urn, times in Counter(deleted(site)).items() if times > 1}
    assert again_made == {"kubernetes:core/v1:ConfigMap"}, "an edit of its data replaces a ConfigMap; all else goes once"
    assert len(set(deleted(site))) == cloud
    table = ["| command | resources in the state after it | deleted in the cloud by it |", "|---|---|---|"]
    assert_written(PAGE, "drill", "\n".join([*table, *(f"| {what} | {count} | {gone} |" for what, count, gone in rows)]) + "\n")
