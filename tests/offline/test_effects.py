"""Which running jobs an edit ends, as a plan with a base says it before `pulumi up`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import struct_pb2

from fleet.loading.home import ROOT
from gpu_ci.offline.base import Base
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.data import to_json
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.report import changed_lines
from tests.offline.staging import EVICT, WIDER, evicting, few_policies, plan_of, staging, write

SPOT = "[g4dn.2xlarge, g4dn.4xlarge]"
REORDERED = (SPOT, "[g4dn.4xlarge, g4dn.2xlarge]")
OTHER_URL = ("https://github.com/example", "https://ghes.example.com/example")
ZONES = "[us-west-2a, us-west-2b, us-west-2c]"
NODE_CONFIG = "\n          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}"
REPLACED = (
    (SPOT, "[g4dn.4xlarge, g4dn.8xlarge, g4dn.2xlarge]"),
    OTHER_URL,
    ("nodes: {min: 0, max: 2}\n          nodeConfig", "nodes: {min: 0, max: 1}\n          nodeConfig"),
)
ALL = tuple(
    f"usw2: edit of {{0}} {{1}} {count} node groups ({{2}}): running jobs of {classes} end"
    for count, classes in ((2, "gpu-t4-release on t4-release"), (3, "gpu-t4 on t4-spot"))
)

GO_ON = "running jobs of {} go on, and the old node groups go with a later `pulumi up`, once they have no node"
REFUSED = "usw2: edit of {}: the cloud refuses it for usw2-control-plane: EKS moves no control plane to {}"


# Edits of different pools and causes share a plan: each recording takes half a second.
@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        (
            (REORDERED, *REPLACED[1:]),
            "",
        ),
        (
            (
                EVICT,
                (SPOT, "[g4dn.2xlarge, g4dn.4xlarge, g4dn.8xlarge]"),
                ("gpu-t4-release:", "gpu-t4-other:"),
                (ZONES, "[us-west-2b, us-west-2a, us-west-2c]"),
            ),
            "usw2: edit of t4-spot.instanceTypes replaces 3 node groups (instanceTypes): running jobs of gpu-t4 on t4-spot end\n"
            "usw2: edit of zones removes the NAT gateway of us-west-2a: open connections of running jobs break, and jobs have "
            "another public address",
        ),
        (
            (EVICT, (ZONES, "[us-west-2b, us-west-2c]"), ("t4-spot", "t4-cheap")),
            "usw2: edit of zones removes the NAT gateway of us-west-2a: open connections of running jobs break, and jobs have "
            "another public address\n"
            f"{REFUSED.format('zones', 'other zones; write its present zones as controlPlaneZones')}\n"
            "usw2: edit of zones deletes 1 node group (us-west-2a): running jobs of gpu-t4-release on t4-release end\n"
            "usw2: removal of t4-spot deletes 3 node groups (us-west-2a, us-west-2b, us-west-2c): running jobs of gpu-t4 on "
            "t4-spot end",
        ),
        (
            (EVICT, ('"1.36"', '"1.35"')),
            "\n".join(ALL).format("kubernetesVersion", "rolls", "releaseVersion, version")
            + "\nusw2: edit of kubernetesVersion: the cloud refuses it for usw2-control-plane: a control plane goes up one "
            "Kubernetes minor at a time, and never down; write the present or the next minor",
        ),
        (
            (("      system: {", "      network: {cidr: 10.40.0.0/16}\n      system: {"),),
            "\n".join(ALL).format("network.cidr", "replaces", "subnetIds")
            + f"\n{REFUSED.format('network.cidr', 'another VPC; create another cluster')}\n"
            "usw2: edit of network.cidr removes the NAT gateway of us-west-2a: open connections of running jobs break, "
            "and jobs have another public address",
        ),
    ],
    ids=["order, nodes and URL", "types, a set and order of zones", "zones and a pool", "version", "network"],
)
def test_edits_say_what_they_end_and_what_is_refused(edits: tuple[tuple[str, str], ...], lines: str, tmp_path: Path) -> None:
    old = evicting() if EVICT in edits else staging()
    changes = Comparison(old, plan_of(write(tmp_path, *edits))).changes
    assert sorted(change.what for change in changes if change.is_loud) == sorted(lines.splitlines())


def test_a_smaller_maximum_deletes_the_group_of_a_zone_only_once_it_is_empty(tmp_path: Path) -> None:
    smaller = REPLACED[2]
    (change,) = Comparison(staging(), plan_of(write(tmp_path, smaller))).changes[:1]
    assert (change.effect, change.ends_jobs, change.is_loud) == ("pool-leaves", False, False)
    assert change.what == (
        "usw2: edit of t4-release.nodes.max deletes 1 node group (us-west-2b) once idle: "
        + GO_ON.format("gpu-t4-release on t4-release")
    )
    template = ("role: release\n", "role: release\n          disk: 150Gi\n")
    both = Comparison(staging(), plan_of(write(tmp_path, smaller, template))).changes
    assert [(each.effect, each.ends_jobs, len(each.urns)) for each in both[:2]] == [("pool-leaves", False, 1)] * 2
    evicted = Comparison(evicting(), plan_of(write(tmp_path, EVICT, smaller, template))).changes
    assert [(each.effect, each.ends_jobs, len(each.urns)) for each in evicted[:2]] == [
        ("pool-replaced", True, 1),
        ("nodes-rolled", True, 1),
    ]


def test_other_edits_end_no_running_job(tmp_path: Path) -> None:
    quiet = (
        ("owner: ci-platform", "owner: ml"),
        ("limit: 8", "limit: 7"),
        ("health: {}", "protect: true"),
        ("Delay: 5m", "Delay: 6m"),
    )
    found = Comparison(staging(), plan_of(write(tmp_path, WIDER, *quiet)))
    assert len(found.resources) > 5
    assert found.ended_jobs == ()


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(write(tmp_path_factory.mktemp("rolled"), EVICT, (f"faster-starts.{NODE_CONFIG}", "faster-starts.")))


def test_a_new_version_of_a_launch_template_is_a_change_of_its_node_groups_alone(rolled: Plan) -> None:
    kinds = {kind.type: kind.changed for kind in Comparison(evicting(), rolled).resources}
    assert kinds["aws:ec2/launchTemplate:LaunchTemplate"] == {"usw2-t4-spot-launch": ("userData",)}
    rolls = {f"usw2-t4-spot-us-west-2{zone}-nodes": ("launchTemplate.version",) for zone in "abc"}
    assert kinds["aws:eks/nodeGroup:NodeGroup"] == rolls
    assert "aws:autoscaling/tag:Tag" not in kinds, "the group keeps its name"


def test_a_replaced_node_group_is_a_change_of_what_reads_its_outputs(tmp_path: Path) -> None:
    replaced = plan_of(write(tmp_path, *REPLACED))
    kinds = {kind.type: kind.changed for kind in Comparison(staging(), replaced).resources}
    tags = kinds["aws:autoscaling/tag:Tag"]
    assert len(tags) == 15
    assert set(tags.values()) == {("autoscalingGroupName",)}


def test_every_output_says_first_which_running_jobs_end(rolled: Plan) -> None:
    (line,) = Comparison(evicting(), rolled).ended_jobs
    assert line == (
        "usw2: edit of t4-spot.nodeConfig.instance.localStorage.strategy rolls 3 node groups (launchTemplate.version): running "
        "jobs of gpu-t4 on t4-spot end"
    )
    base = Base("", evicting())
    assert next(changed_lines(rolled, base)) == line
    text = markdown(rolled, base)
    assert re.findall("^### .*", text, re.MULTILINE)[0] == "### ⚠️ `pulumi up` ends running jobs"
    assert json.loads(to_json(rolled, base))["changes"]["endsJobs"] == [line]


def test_another_shape_on_oke_ends_the_jobs_of_its_pool(tmp_path: Path) -> None:
    file = ROOT / "examples" / "Pulumi.existing-oke.yaml"
    other = tmp_path / file.name
    edited = file.read_text().replace("[VM.GPU.A10.1]", "[VM.GPU.A10.2]")
    with few_policies():
        before = make_plan("existing-oke", ROOT, file)
        said = []
        for text in (edited, edited.replace("    sjc:\n", "    sjc:\n      replaceNodes: evict\n")):
            other.write_text(text)
            said.append(Comparison(before, make_plan("existing-oke", ROOT, other)))
    waits, evicts = said
    assert evicts.ended_jobs == (
        "sjc: edit of a10.instanceTypes replaces 1 node pool (nodeShape): running jobs of oci-a10 on a10 end",
    )
    assert waits.ended_jobs == ()
    assert waits.changes[0].effect == "pool-leaves"


def test_no_plan_without_resources_says_that_jobs_end(rolled: Plan) -> None:
    assert Comparison(replace(evicting(), recording=None), rolled).ended_jobs == ()


AGAIN = "usw2: edit of gpu-ci:github.url registers runner set gpu-t4"


@pytest.mark.parametrize(
    ("urls", "effect", "line"),
    [
        (
            ("github.com/example", "github.com/other"),
            "set-beside",
            f"{AGAIN} again on github.com, beside the old one: running jobs go on, and the next `pulumi up` deletes the old set, "
            "which takes no new ones (docs/runner-set-changes.md)",
        ),
        *(
            (
                urls,
                "set-leaves",
                f"{AGAIN} of {urls[1].split('/')[0]} again once idle: its running jobs go on, it takes no new ones, and a later "
                "`pulumi up` replaces it under its name, once it has no runner (docs/runner-set-changes.md)",
            )
            for urls in (("github.com/example", "ghes.example.com/example"), ("ghes.example.com/example", "github.com/example"))
        ),
    ],
)
def test_another_url_ends_no_job(tmp_path: Path, urls: tuple[str, str], effect: str, line: str) -> None:
    before, after = (plan_of(write(tmp_path, ("https://github.com/example", f"https://{url}"))) for url in urls)
    told = [change for change in Comparison(before, after).changes if change.is_told]
    assert [(change.effect, change.ends_jobs) for change in told] == [(effect, False)] * 2
    assert line in [change.what for change in told]


def _pinned(plan: Plan, version: str) -> Plan:
    """The plan with another version of the charts of runner sets."""
    assert plan.recording is not None
    resources = []
    for resource in plan.recording.resources:
        other = struct_pb2.Struct()
        other.CopyFrom(resource.wire)
        if str(resource.inputs.get("chart")).endswith("/gha-runner-scale-set"):
            other["version"] = version
        resources.append(replace(resource, wire=other))
    return replace(plan, recording=replace(plan.recording, resources=tuple(resources)))


@pytest.mark.parametrize(("version", "effect"), [("0.14.9", "updated"), ("0.15.0", "set-replaced")])
def test_a_patch_of_arc_updates_the_sets_and_a_minor_replaces_them(version: str, effect: str) -> None:
    changes = Comparison(staging(), _pinned(staging(), version)).changes
    assert {(change.effect, change.ends_jobs) for change in changes} == {(effect, effect != "updated")}
    assert sum(len(change.urns) for change in changes) == 2
