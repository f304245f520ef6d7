"""docs/upgrades.md has what `pulumi up` does to the deployed stacks in each upgrade. GPU_CI_RENEW=1 writes it anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from tests.builders import ROOT
from tests.docs.markdown import assert_written
from tests.engine import staging
from tests.engine.live import Asked
from tests.engine.operations import COMPONENT, ROLLS
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

PAGE = ROOT / "docs" / "upgrades.md"
PINS = "fleet/facts/data/versions.toml"
LEAVING = "gpu-ci/leaving"
PLANE, GROUP = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
ADDONS_OF = ("aws:eks/addon:Addon", "oci:ContainerEngine/addon:Addon")
OKE, POOL = "oci:ContainerEngine/cluster:Cluster", "oci:ContainerEngine/nodePool:NodePool"
RELEASE, RULES = "kubernetes:helm.sh/v3:Release", "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
BELONGING = ("aws:autoscaling/tag:Tag", "aws:ec2/launchTemplate:LaunchTemplate")
"""What comes and goes with a node group."""
NAMES = {PLANE: "EKS control plane", OKE: "OKE control plane", RULES: "alert rules"}
MINOR, IMAGE, ADDONS = "a Kubernetes minor", "a node image of EKS", "all add-ons of EKS"
CHARTS, PATCH = "all charts but ARC's", "a patch of ARC"
LATER, AFTER = "the update after a minor, while nodes are left", "the update once no node is left"
ORDER = ("EKS control plane", "add-on `kube-proxy`", "EKS system pool", "add-on `coredns`", "chart `cluster-autoscaler`")
OKE_ORDER = ("OKE control plane", "OKE GPU pools", "add-on `ClusterAutoscaler`")
"""What a minor updates, one after another."""
UPGRADES = {
    "staging": (MINOR, LATER, AFTER, ADDONS, CHARTS, PATCH, IMAGE),
    "prod": (MINOR, CHARTS, PATCH),
    "oke-pods": (MINOR, PATCH),
}
"""By stack what is upgraded, one after another. Prod needs longer, and has in the others what staging has."""
LAST = 99
"""The step of deletions."""
EDITS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    MINOR: (
        ("", r'kubernetesVersion: "1\.35"', 'kubernetesVersion: "1.36"'),
        ("prod", r"examplesystem", "examplesystem136"),
        ("oke-pods", r"example(gpu|system)", r"example\g<1>136"),
        ("oke-pods", r"ClusterAutoscaler: v1\.34\.2", "ClusterAutoscaler: v1.34.3"),
    ),
    IMAGE: (("", r'(\[kubernetes\."1\.36"\]\nami-release = ")[^"]+', r"\g<1>1.36.4-20260917"),),
    ADDONS: (("", r'(?m)(?<=eksbuild\.)(\d+)(?="$)', r"\g<1>9"),),
    CHARTS: (("", r'(\[charts\.(?!gha-)[^]]+\]\nrepository = "[^"]+"\nversion = "[^"]+)', r"\g<1>-next"),),
    PATCH: (("", r'(\[charts\.gha-[^]]+\]\nrepository = "[^"]+"\nversion = ")[^"]+', r"\g<1>0.14.3"),),
}
"""The edits of each upgrade: the stack or all, a pattern, and what replaces it in the stack file or in the pins."""


@dataclass(frozen=True)
class Update:
    """The calls of an update that changed something, in their order; the state's resources by URN before and after it."""

    calls: tuple[Asked, ...]
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any]]
    text: str

    @cached_property
    def methods(self) -> dict[str, tuple[str, ...]]:
        """The calls by URN. What belongs to a node group is left out."""
        urns = dict.fromkeys(call.urn for call in self.calls if call.type not in BELONGING)
        return {urn: tuple(call.method for call in self.calls if call.urn == urn) for urn in urns}

    def resource(self, urn: str) -> Mapping[str, Any]:
        return self.after.get(urn) or self.before[urn]

    def what(self, urn: str) -> str:
        """The resource in the words of the page."""
        found = self.resource(urn)
        kind, inputs, name = found["type"], found["inputs"], urn.rpartition("::")[2]
        if kind == RELEASE:
            chart = inputs["chart"].rpartition("/")[2]
            return "runner sets" if chart == "gha-runner-scale-set" else f"chart `{chart}`"
        if kind in (GROUP, POOL):
            where = "EKS" if kind == GROUP else "OKE"
            return f"{where} system pool" if "-system-" in name else f"{where} GPU pools"
        return f"add-on `{inputs['addonName']}`" if kind in ADDONS_OF else NAMES.get(kind, name)

    def operation(self, urn: str) -> str:
        """What happened to it in the words of the page."""
        methods = " ".join(self.methods[urn])
        if methods != "Update":
            return {"Create": "get new node groups", "Delete": "lose empty node groups"}.get(methods, "replaced")
        kind, before, after = self.resource(urn)["type"], self.before[urn]["inputs"], self.after[urn]["inputs"]
        if kind == POOL:
            cycles = after["nodePoolCyclingDetails"]["isNodeCyclingEnabled"]
            return "replaced node by node" if cycles else "updated for new nodes only"
        if LEAVING in str(after.get("taints")):
            return "taint the earlier node groups"
        rolls = {path.partition(".")[0] for path in ROLLS}
        return "rolled node by node" if kind == GROUP and any(before.get(key) != after.get(key) for key in rolls) else "updated"

    @cached_property
    def inside(self) -> dict[str, list[str]]:
        """The children of components that another process makes: their outputs come when all children are there."""
        remote = {urn for urn, each in self.after.items() if each["type"] == COMPONENT}
        return {parent: [urn for urn, each in self.after.items() if each.get("parent") == parent] for parent in remote}

    def needs(self, urn: str) -> set[str]:
        """What the engine waits for before it asks for the resource, and what that waits for."""
        found, waiting = set[str](), [urn]
        while waiting:
            name = waiting.pop()
            each = self.after.get(name, {})
            provider = each.get("provider", "").rpartition("::")[0]
            new = {*each.get("dependencies", ()), *([provider] if provider else []), *self.inside.get(name, ())} - found
            found |= new
            waiting += new
        return found

    def level(self, urn: str) -> int:
        """How many steps come before it. Deletions are last."""
        if self.methods[urn] == ("Delete",):
            return LAST
        return max((self.level(each) + 1 for each in self.needs(urn) & self.methods.keys()), default=0)

    @property
    def steps(self) -> list[str]:
        """What the update did, step by step: the resources of a step do not wait for each other."""
        levels: dict[int, dict[str, dict[str, None]]] = {}
        for urn in self.methods:
            levels.setdefault(self.level(urn), {}).setdefault(self.operation(urn), {})[self.what(urn)] = None
        return [
            "; ".join(f"{', '.join(sorted(names))} {done}" for done, names in sorted(levels[level].items()))
            for level in sorted(levels)
        ]

    @property
    def jobs(self) -> str:
        """What running jobs meet."""
        done = {f"{self.what(urn)} {self.operation(urn)}" for urn in self.methods}
        if any(re.search("(GPU pools|runner sets) (rolled|replaced)", each) for each in done):
            return "end"
        launchers = any(urn.endswith("-set-chart") for urn in self.after)
        return (
            "go on, on OCI machines for an hour at most"
            if launchers and "OKE system pool replaced node by node" in done
            else "go on"
        )


@dataclass(frozen=True)
class Drill:
    """The upgrades of a deployed stack, one after another."""

    site: Site
    updates: dict[str, Update]

    @property
    def pins(self) -> Any:
        return self.site.cli.folder / PINS

    def edit(self, name: str) -> None:
        """Changes the stack file or the pins. Raises AssertionError if neither has what an edit replaces."""
        file = self.site.file
        for stack, pattern, after in EDITS[name]:
            if stack in ("", self.site.stack):
                made = [(path, *re.subn(pattern, after, path.read_text())) for path in (file, self.pins)]
                assert any(count for *_, count in made), f"nothing has {pattern}"
                for path, text, _ in made:
                    path.write_text(text)

    def up(self, name: str) -> Update:
        """An update, which reads the cloud first."""
        before = self.state()
        self.site.cloud.asked.clear()
        text = self.site.up().text
        calls = tuple(call for call in self.site.cloud.asked if call.method in ("Create", "Update", "Delete"))
        self.updates[name] = Update(calls, before, self.state(), text)
        return self.updates[name]

    def state(self) -> dict[str, Mapping[str, Any]]:
        export = json.loads(self.site.cli.ok("stack", "export", "--stack", self.site.stack).out)
        return {each["urn"]: each | {"inputs": each.get("inputs", {})} for each in export["deployment"]["resources"]}

    def scale(self, size: int) -> None:
        """Gives the node groups of the spot pool of T4 this number of nodes each, as the autoscaler does."""
        for group in self.site.cloud.live(GROUP, lambda live: "-t4-spot-" in live.id):
            group.change("scalingConfig.desiredSize", size)


@pytest.fixture(scope="module", params=[*UPGRADES])
def drill(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """The stack at 1.35 with a node in each group of its spot pool, and its upgrades."""
    with staging.built(tmp_path_factory.mktemp("upgrades"), request.param) as site:
        made = Drill(site, {})
        file = site.file
        text = file.read_text().replace('kubernetesVersion: "1.36"', 'kubernetesVersion: "1.35"')
        file.write_text(text.replace("ClusterAutoscaler: v1.34.3", "ClusterAutoscaler: v1.34.2"))
        site.up()
        for name in UPGRADES[site.stack]:
            made.scale(1)
            if name in EDITS:
                made.edit(name)
            if name == AFTER:
                made.scale(0)
            made.up(name)
        yield made


def test_the_page_has_what_each_update_does_in_its_order(drill: Drill) -> None:
    rows = [f"| {name} | {' → '.join(found.steps) or 'nothing'} | {found.jobs} |\n" for name, found in drill.updates.items()]
    head = "| upgrade | what `pulumi up` does, in this order | running jobs |\n|---|---|---|\n"
    assert_written(PAGE, f"upgrades:{drill.site.stack}", "".join((head, *rows)))


def test_the_engine_asks_for_nothing_before_what_it_waits_for(drill: Drill) -> None:
    for name, found in drill.updates.items():
        order = [call.urn for call in found.calls]
        last = {urn: place for place, urn in enumerate(order)}
        early = [
            (need, urn)
            for urn in found.methods
            for need in found.needs(urn) & found.methods.keys()
            if order.index(urn) < last[need]
        ]
        assert early == [], name


def test_a_minor_goes_from_the_control_plane_to_the_nodes_and_then_to_what_runs_there(drill: Drill) -> None:
    steps = drill.updates[MINOR].steps
    on_oke = drill.site.stack == "oke-pods"
    first = [next(place for place, step in enumerate(steps) if words in step) for words in (OKE_ORDER if on_oke else ORDER)]
    assert first == sorted(set(first)), steps
    if on_oke:
        return
    together = steps[first[2]]
    assert "EKS GPU pools get new node groups" in together
    assert "EKS GPU pools taint the earlier node groups" in together


@pytest.mark.parametrize("drill", ["staging"], indirect=True)
def test_old_node_groups_keep_their_version_and_go_once_they_have_no_node(drill: Drill) -> None:
    minor, later, after = (drill.updates[name] for name in (MINOR, LATER, AFTER))
    old = {urn for urn, each in minor.before.items() if each["type"] == GROUP and "-system-" not in urn}
    assert {minor.after[urn]["inputs"]["version"] for urn in old} == {"1.35"}
    busy = {urn for urn in old if "-t4-spot-" in urn}
    assert busy <= later.after.keys()
    assert {urn for urn in later.methods if later.methods[urn] != ("Delete",)} == set()
    assert busy <= {urn for urn, methods in after.methods.items() if methods == ("Delete",)}
    assert not old & after.after.keys()
    assert "is leaving and has 1 node: no node ends now" in minor.text


def test_jobs_go_on(drill: Drill) -> None:
    ended = {name for name, found in drill.updates.items() if found.jobs != "go on"}
    assert ended == ({MINOR} if drill.site.stack == "prod" else set()), "prod has sets of OCI machines"
