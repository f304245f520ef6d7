"""Edits of sizes on the real engine: EKS takes each in one update, and none ends a node or undoes the autoscaler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from tests.engine import staging
from tests.engine.cli import STACK_FILE, Cli, Outcome
from tests.engine.live import Cloud, Live
from tests.engine.provider import Provider

pytestmark = pytest.mark.engine

STACK = staging.EXISTING
GROUP = "aws:eks/nodeGroup:NodeGroup"
READ = "aws:eks/getNodeGroup:getNodeGroup"
NODES = "          nodes: {min: 0, max: 4}\n"
DENIED = "AccessDeniedException: not authorized to perform: eks:ListClusters"
ONE_POLICY = {"all": "disabled", "scale-to-zero": {"enforcementLevel": "mandatory"}}
PACK = ("--policy-pack", "policies", "--policy-pack-config", "one-policy.json")


class Aws(Provider):
    """AWS, where the autoscaler acts once in an update: right before the engine compares a group, or after it was asked for."""

    before_diff: Callable[[], None] | None = None
    after_read: Callable[[], None] | None = None
    denied = False

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name, as below
        """As everywhere, after the autoscaler."""
        if self.before_diff is not None and "::usw2-t4-spot-" in request.urn and GROUP in request.urn:
            act, self.before_diff = self.before_diff, None
            act()
        return super().Diff(request, context)

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """As everywhere, before the autoscaler; AWS may deny it."""
        if self.denied:
            context.abort(grpc.StatusCode.UNKNOWN, DENIED)
        answer = super().Invoke(request, context)
        if self.after_read is not None and request.tok == READ and "t4-spot-us-west-2b" in str(request.args):
            act, self.after_read = self.after_read, None
            act()
        return answer


@dataclass
class Site:
    """The example, deployed to the simulated clouds."""

    cli: Cli
    aws: Aws
    nodes: str = field(default=NODES)

    def edit(self, nodes: str) -> None:
        """Writes the line of the sizes of t4-spot, and lines below it."""
        path = self.cli.folder / STACK_FILE.format(STACK)
        text = path.read_text()
        assert self.nodes in text, "the stack file no longer has this text"
        path.write_text(text.replace(self.nodes, nodes, 1))
        self.nodes = nodes

    def up(self, *options: str) -> Outcome:
        """An update, which reads the cloud first, as Pulumi.yaml says."""
        return self.cli.ok("up", "--stack", STACK, "--yes", "--suppress-progress", *(options or ["--skip-preview"]))

    def group(self, zone: str) -> Live:
        """The group of t4-spot in a zone."""
        (live,) = self.aws.cloud.live(GROUP, lambda live: f"t4-spot-us-west-2{zone}-" in live.id)
        return live

    def scale(self, **sizes: int) -> None:
        """Gives groups another number of nodes, as the autoscaler does."""
        for zone, size in sizes.items():
            self.group(zone).change("scalingConfig.desiredSize", size)

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Minimum, maximum and number of nodes of each group of t4-spot by zone."""
        names = ("minSize", "maxSize", "desiredSize")
        groups = self.aws.cloud.live(GROUP, lambda live: "t4-spot-" in live.id)
        return {
            live.id.partition("us-west-2")[2][0]: tuple(int(live.inputs["scalingConfig"][name]) for name in names)
            for live in groups
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cloud = Cloud()
    with Aws("aws", cloud) as aws, Provider("kubernetes", cloud) as kubernetes:
        serving: dict[str, Provider] = {"aws": aws, "kubernetes": kubernetes}
        cli = staging.existing(tmp_path_factory.mktemp("sizes"), serving)
        made = Site(cli, aws)
        made.up()
        assert made.sizes == {"a": (0, 2, 0), "b": (0, 2, 0)}
        yield made


def test_a_minimum_above_the_present_number_works_in_one_update(site: Site) -> None:
    site.edit("          nodes: {min: 2, max: 6}\n")
    site.up()
    assert site.sizes == {"a": (1, 3, 1), "b": (1, 3, 1)}
    site.edit("          nodes: {min: 0, max: 6}\n")
    site.up()
    assert site.sizes == {"a": (0, 3, 1), "b": (0, 3, 1)}, "the autoscaler lowers the number"


def test_an_update_of_labels_leaves_a_size_that_changes_meanwhile(site: Site) -> None:
    site.aws.before_diff = lambda: site.scale(a=3, b=0)
    site.edit(f"{site.nodes}          labels: {{example.com/team: vision}}\n")
    site.up()
    assert site.aws.before_diff is None
    assert {site.group(zone).inputs["labels"]["example.com/team"] for zone in "ab"} == {"vision"}
    assert site.sizes == {"a": (0, 3, 3), "b": (0, 3, 0)}


def test_an_update_of_sizes_sends_the_number_that_the_group_has_by_then(site: Site) -> None:
    site.scale(a=1, b=1)
    site.aws.after_read = lambda: site.scale(b=3)
    site.edit(site.nodes.replace("max: 6", "max: 5"))
    site.up()
    assert site.aws.after_read is None
    assert site.sizes == {"a": (0, 3, 1), "b": (0, 3, 3)}, "its share is 2, and it has 3 nodes"


def test_a_lower_maximum_waits_for_the_nodes_of_a_busy_pool(site: Site) -> None:
    site.scale(a=3, b=2)
    site.edit(site.nodes.replace("max: 5", "max: 2"))
    (site.cli.folder / "one-policy.json").write_text(json.dumps(ONE_POLICY))
    said = site.up(*PACK).text
    assert "gpu-ci@v" in said, "the policies saw the sizes"
    assert site.sizes == {"a": (0, 3, 3), "b": (0, 2, 2)}
    for zone, nodes in (("a", 3), ("b", 2)):
        assert f"usw2-t4-spot-us-west-2{zone}-nodes has {nodes} nodes, and its share of nodes.max is 1: no node ends now" in said
    site.scale(a=1, b=0)
    assert "no node ends now" not in site.up().text
    assert site.sizes == {"a": (0, 1, 1), "b": (0, 1, 0)}


def test_a_zone_without_a_share_loses_its_group_only_when_it_is_empty(site: Site) -> None:
    site.scale(a=0, b=1)
    site.edit(site.nodes.replace("max: 2", "max: 1"))
    assert "usw2-t4-spot-us-west-2b-nodes is leaving and has 1 node: no node ends now" in site.up().text
    assert site.sizes == {"a": (0, 1, 0), "b": (0, 1, 1)}
    site.scale(b=0)
    site.up()
    assert site.sizes == {"a": (0, 1, 0)}


def test_without_the_right_to_ask_a_preview_ends_with_one_error(site: Site) -> None:
    site.aws.denied = True
    refused = site.cli("preview", "--stack", STACK, "--suppress-progress")
    site.aws.denied = False
    assert refused.status != 0
    assert "platform: AWS does not report the sizes of its node groups: " in refused.text
    assert (
        f"{DENIED}; a preview and an update need eks:ListClusters, eks:ListNodegroups and eks:DescribeNodegroup" in refused.text
    )
    assert "Traceback" not in refused.text
