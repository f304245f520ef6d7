"""examples/components: a program for each packaged component, planned offline and judged by the policies."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.plan import blocked_of
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from package.provider import LANGUAGES, NAME, VERSION, packaged
from package.reference import SCHEMA
from policies.rules import RULES
from tests.builders import ROOT
from tests.day import TIMELESS

FOLDER = ROOT / "examples" / "components"
VALUES = {
    "kubeconfig": "apiVersion: v1 # of a cluster that exists already",
    "githubPrivateKey": "of the GitHub App",
    "publicCidrs": '["203.0.113.0/24"]',
    "availabilityDomain": "abcd:US-SANJOSE-1-AD-1",
    "compartmentId": "ocid1.compartment.oc1..exampleci",
    "systemImageId": "ocid1.image.oc1.sjc.examplesystem",
    "clusterName": "theirs",
    "nodeRoleArn": "arn:aws:iam::123456789012:role/nodes",
    "subnetIds": '{"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "subnet-0123456789abcdef1"}',
    "clusterId": "ocid1.cluster.oc1.sjc.example",
    "subnetId": "ocid1.subnet.oc1.sjc.example",
    "securityGroupId": "ocid1.networksecuritygroup.oc1.sjc.example",
    "imageId": "ocid1.image.oc1.sjc.example",
}
"""Config of the programs."""
PROGRAMS = sorted(FOLDER.glob("*/__main__.py"))
TEMPLATE = ROOT / "examples/template"
ELSEWHERE = {
    "gpu_node_group": {"budget-alarm-required", "node-role-least-privilege", "system-pool-exists"},
    "oci_gpu_runner": {"budget-alarm-required", "quota-declared"},
}
"""Policies that ask for what the owner of the cluster declares in another program, by program."""
CLUSTERS = {"EksGpuCluster", "OkeGpuCluster"}
"""Components that create a cluster."""


def folder_of(component: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", component).lower()


@cache
def recorded(program: Path) -> Recording:
    """What a program declares."""
    name = ids(program).replace("_", "-")
    values = {f"{name}:{key}": value for key, value in VALUES.items()}
    config = StackConfig(name, "dev", program.parent / "Pulumi.dev.yaml", values, frozenset(values), {})
    return record(program, config)


def ids(program: Path) -> str:
    return program.parent.name


def test_each_component_has_a_program():
    assert {ids(program) for program in PROGRAMS} == {folder_of(kind.__name__) for kind in packaged()}


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_a_program_is_short_and_declares_its_component(program):
    assert len(program.read_text().splitlines()) <= 33
    own = [each for each in recorded(program).resources if each.type.startswith(f"{NAME}:")]
    assert folder_of(own[0].type.rpartition(":")[2]) == ids(program)
    assert len([each for each in recorded(program).resources if each.parent == own[0].urn]) > 0
    assert recorded(program).outputs, "it exports what others need"


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if ids(each) not in {folder_of(name) for name in CLUSTERS}], ids=ids
)
def test_a_program_uses_a_cluster_that_it_does_not_create(program):
    types = {each.type for each in recorded(program).resources}
    assert types & {"aws:eks/cluster:Cluster", "eks:index:Cluster", "oci:ContainerEngine/cluster:Cluster"} == set()
    for each in recorded(program).resources:
        if each.type.startswith("kubernetes:"):
            assert each.provider_resource is not None, each.urn
            assert each.provider_resource.name == "cluster", "no object goes to the cluster of the current context"


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_the_policies_block_a_program_only_for_what_the_owner_of_its_cluster_declares(program):
    verdicts = judge(recorded(program), configure(RULES, {}, TIMELESS))
    assert {each.rule for each in blocked_of(verdicts)} == ELSEWHERE.get(ids(program), set())


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_a_program_is_a_project(program):
    project = yaml.safe_load((program.parent / "Pulumi.yaml").read_text())
    assert (project["name"], project["runtime"]["name"]) == (ids(program).replace("_", "-"), "python")
    assert required(program) == f"gpu-ci[{cloud_of(program)}]"


def cloud_of(program: Path) -> str:
    """The module of gpu_ci.components that a program imports. The extra that installs what it imports has the same name."""
    (cloud,) = re.findall(r"^from gpu_ci\.components\.(\w+) import ", program.read_text(), re.MULTILINE)
    return str(cloud)


def required(program: Path) -> str:
    """The only requirement of a program, which is the wheel of this version."""
    name, _, address = (program.parent / "requirements.txt").read_text().strip().partition(" @ ")
    assert address == f"https://github.com/example/gpu-ci/releases/download/v{VERSION}/gpu_ci-{VERSION}-py3-none-any.whl"
    return name


def test_the_typescript_program_uses_names_of_the_schema():
    text = (FOLDER / "typescript" / "index.ts").read_text()
    assert f'"{LANGUAGES["nodejs"]["packageName"]}"' in text
    (component,) = re.findall(r"new gpuCi\.(\w+)\(", text)
    held = json.loads(SCHEMA.read_text())["resources"][f"{NAME}:index:{component}"]
    assert set(re.findall(r"^        (\w+):", text, re.MULTILINE)) <= held["inputProperties"].keys()
    assert set(re.findall(r"= operator\.(\w+);", text)) <= held["properties"].keys()


def test_the_template_asks_for_what_its_program_reads():
    project = yaml.safe_load((TEMPLATE / "Pulumi.yaml").read_text())
    program = (TEMPLATE / "__main__.py").read_text()
    assert set(re.findall(r"config\.require\w*\(\"(\w+)\"\)", program)) == project["template"]["config"].keys()
    secrets = {key for key, held in project["template"]["config"].items() if held.get("secret")}
    assert set(re.findall(r"config\.require_secret\(\"(\w+)\"\)", program)) == secrets
    assert (project["name"], project["description"]) == ("${PROJECT}", "${DESCRIPTION}"), "pulumi new fills them in"
    assert required(TEMPLATE / "__main__.py") == "gpu-ci[kubernetes]"


def test_the_program_of_the_template_plans_and_holds_every_policy():
    asked = yaml.safe_load((TEMPLATE / "Pulumi.yaml").read_text())["template"]["config"]
    given = VALUES | {"githubUrl": "https://github.com/acme", "appId": "1", "installationId": "2", "runnerGroup": "gpu"}
    values = {f"mine:{key}": str(held.get("default", given.get(key))) for key, held in asked.items()}
    config = StackConfig("mine", "dev", TEMPLATE / "Pulumi.dev.yaml", values, frozenset(values), {})
    found = record(TEMPLATE / "__main__.py", config)
    assert {each.type for each in found.resources} >= {"gpu-ci:index:DevicePluginStack", "gpu-ci:index:ArcRunnerSet"}
    releases = [each.inputs for each in found.resources if each.type == "kubernetes:helm.sh/v3:Release"]
    values = {each["chart"].rpartition("/")[2]: each["values"] for each in releases}
    runners: Any = values["gha-runner-scale-set"]
    plugin: Any = values["nvidia-device-plugin"]
    assert runners["controllerServiceAccount"] == {"namespace": "arc-systems", "name": "arc-gha-rs-controller"}, (
        "what GitHub's quickstart installs"
    )
    (nodes,) = runners["template"]["spec"]["nodeSelector"].items()
    assert nodes == ("node.kubernetes.io/instance-type", "g4dn.xlarge"), "a label that every cloud's nodes have"
    (term,) = plugin["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": nodes[0], "operator": "In", "values": [nodes[1]]}]}
    assert [each.rule for each in blocked_of(judge(found, configure(RULES, {}, TIMELESS)))] == []
