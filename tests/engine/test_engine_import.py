"""`pulumi import` adopts resources that somebody else created, and changes none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleet.loading import stackfile
from gpu_ci.offline import wire
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.engine import staging
from tests.engine.cli import Cli
from tests.engine.provider import Provider, providers
from tests.engine.verdicts import STREAMED, events

pytestmark = pytest.mark.engine

STACK = staging.EXISTING
TEMPLATE, GROUP = "aws:ec2/launchTemplate:LaunchTemplate", "aws:eks/nodeGroup:NodeGroup"
IDS = {"usw2-t4-spot-launch": "lt-0123456789abcdef0", "usw2-t4-spot-us-west-2a-nodes": "platform:gpu-spot"}
"""A node group with its template that somebody created by hand: ids by logical name."""
PARENTS = ("usw2-aws", "usw2-t4-spot")
"""The provider and the component that the two hang on."""


@dataclass(frozen=True)
class Site:
    """The example's project, its stack, and the simulated AWS."""

    cli: Cli
    aws: Provider


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with providers(("aws", "kubernetes")) as serving:
        cli = staging.existing(tmp_path_factory.mktemp("import"), serving)
        yield Site(cli, serving["aws"])


def planned(folder: Path) -> Recording:
    return record(folder / "__main__.py", stackfile.load(STACK, folder))


def imported(site: Site) -> dict[str, Any]:
    """The import file of the two resources, with their ids, as docs/existing-clusters.md describes it."""
    path = site.cli.folder / "import.json"
    site.cli.ok("preview", "--stack", STACK, "--import-file", path.name, "--suppress-progress")
    written = json.loads(path.read_text())
    kept = [each for each in written["resources"] if each["name"] in (*IDS, *PARENTS)]
    for each in kept:
        if each["name"] in IDS:
            assert each["id"] == "<PLACEHOLDER>"
            each["id"] = IDS[each["name"]]
    return {**written, "resources": kept}


def test_an_adopted_node_group_stays_as_it_is(site):
    plan = {each.name: each for each in planned(site.cli.folder).resources if each.type in (TEMPLATE, GROUP)}
    template, group = (plan[name] for name in IDS)
    cloud = site.aws.cloud
    cloud.put(TEMPLATE, IDS[template.name], wire.raw(template.wire))
    cloud.put(GROUP, IDS[group.name], {**wire.raw(group.wire), "launchTemplate": {"id": IDS[template.name], "version": "1"}})
    file = site.cli.folder / "import.json"
    file.write_text(json.dumps(imported(site)))
    site.cli.ok(
        "import", "--stack", STACK, "--file", file.name, "--yes", "--generate-code=false", "--protect=false", "--skip-preview"
    )
    state = json.loads(site.cli.ok("stack", "export", "--stack", STACK).out)["deployment"]["resources"]
    assert {each["urn"]: each["id"] for each in state if each["type"] in (TEMPLATE, GROUP)} == {
        plan[name].urn: identity for name, identity in IDS.items()
    }, "the URNs are those of the program, with the ids of the cloud"
    preview = site.cli.having(**STREAMED)("preview", "--stack", STACK, "--json", "--suppress-progress")
    assert preview.status == 0, preview
    steps = {each["metadata"]["urn"]: each["metadata"]["op"] for each in events(preview, "resourcePreEvent")}
    assert {steps[plan[name].urn] for name in IDS} == {"same"}, "the next update leaves them as they are"
