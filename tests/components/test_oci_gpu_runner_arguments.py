"""Plain arguments of OCI runner sets: on an OKE cluster that the program did not create."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_oci as oci
import pytest

from components.oci.oci_gpu_runner import OciGpuRunner
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import Secret
from tests.cases import cases
from tests.components.recorded import ROOT, build_alone, named, of_type

RELEASE = "kubernetes:helm.sh/v3:Release"
POLICY = "oci:Identity/policy:Policy"
PROVIDER = "pulumi:providers:oci"
KEY = "-----BEGIN PRIVATE KEY-----"
APP = {"app_id": "1", "installation_id": "2"}
DOMAIN = "abcd:US-SANJOSE-1-AD-1"
THERE = {"region": "us-ashburn-1", "availability_domains": ["abcd:US-ASHBURN-AD-2"]}
COMMON: dict[str, Any] = {
    "region": "us-sanjose-1",
    "compartment_id": "ocid1.compartment.oc1..machines",
    "shapes": ["VM.GPU.A10.1"],
    "capacity_type": "on-demand",
    "role": "burst",
    "github_url": "https://github.com/acme",
}
OWN = COMMON | {
    "cluster_id": "ocid1.cluster.oc1.sjc.a",
    "subnet_id": "ocid1.subnet.oc1.sjc.b",
    "security_group_id": "ocid1.networksecuritygroup.oc1.sjc.c",
    "image": {"id": "ocid1.image.oc1.sjc.d", "driver": "580.159.03"},
}
STANDING = OWN | {"kind": "vm", "count": 2.0, "availability_domains": [DOMAIN]}
PER_JOB = OWN | {"kind": "vm-per-job", "places": [{"region": "us-sanjose-1", "availability_domains": [DOMAIN]}], "max_runners": 4}
CNCF = COMMON | {
    "kind": "vm-per-job",
    "launcher": "cncf",
    "places": [{"region": "us-sanjose-1", "availability_domains": [DOMAIN], "subnet": "ocid1.subnet.oc1.sjc.b"}],
    "max_runners": 4,
}


def program(args: Mapping[str, Any]) -> Callable[[], None]:
    """A program that has only this component."""

    def declare() -> None:
        cloud = oci.Provider("cloud", region="us-sanjose-1")
        cluster = kubernetes.Provider("cluster", kubeconfig="{}")
        OciGpuRunner("one", dict(args), pulumi.ResourceOptions(providers=[cloud, cluster]))  # type: ignore[arg-type]

    return declare


def alone(args: Mapping[str, Any]) -> Recording:
    return build_alone(program(args))


def config(found: Recording) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(
        named(found, "one-launcher", "kubernetes:core/v1:ConfigMap").inputs["data"]["launcher.json"]
    )
    return held


def launcher(found: Recording) -> dict[str, Any]:
    pod: dict[str, Any] = named(found, "one-set-chart", RELEASE).inputs["values"]["template"]["spec"]
    return pod


def test_standing_machines_need_nothing_of_a_cluster_but_arc():
    found = alone(STANDING)
    pool = named(found, "one-pool", "oci:Core/instancePool:InstancePool").inputs
    assert (pool["size"], pool["compartmentId"]) == (2, "ocid1.compartment.oc1..machines")
    assert pool["freeformTags"] == {"gpu-ci/stack": "test", "gpu-ci-set": "one"}
    pod = launcher(found)
    assert pod["nodeSelector"] == {}
    assert "priorityClassName" not in pod
    assert named(found, "one-set-namespace", "kubernetes:core/v1:Namespace").inputs["metadata"]["name"] == "runners-one"
    assert not of_type(found, "kubernetes:core/v1:Secret"), "the namespace has the Secret"


def test_a_machine_for_each_job_needs_nothing_of_a_cluster_but_arc():
    found = alone(PER_JOB)
    assert not of_type(found, "oci:Core/instancePool:InstancePool")
    held = config(found)
    assert (held["set"], held["places"][0]["subnet"], held["tags"]) == ("one", OWN["subnet_id"], {"gpu-ci/stack": "test"})
    (rights,) = of_type(found, POLICY)
    assert rights.inputs["compartmentId"] == "ocid1.compartment.oc1..machines"
    assert "request.principal.cluster_id = 'ocid1.cluster.oc1.sjc.a'" in rights.inputs["statements"][0]
    assert rights.provider_urn.endswith("::cloud"), "a home region of its own was not named"


def test_cncfs_launcher_needs_no_oci_provider_and_no_ids():
    def declare() -> None:
        cluster = kubernetes.Provider("cluster", kubeconfig="{}")
        OciGpuRunner("one", CNCF, pulumi.ResourceOptions(providers=[cluster]))  # type: ignore[arg-type]

    found = build_alone(declare)
    assert not [each for each in found.resources if each.type.startswith(("oci:", "pulumi:providers:oci"))]
    assert f"--subnet-id={CNCF['places'][0]['subnet']}" in launcher(found)["containers"][0]["args"]


def test_a_set_takes_the_place_that_the_cluster_gives():
    found = alone(
        PER_JOB
        | {
            "runner_scale_set_name": "a10",
            "machine_set_name": "acme-a10",
            "namespace": "ci",
            "create_namespace": False,
            "isolate": False,
            "github_secret": "app",
            "listener_node_selector": {"pool": "cpu"},
            "launcher_node_selector": {"pool": "launchers"},
            "priority_class": "ci",
            "controller_namespace": "arc",
            "tags": {"owner": "ci"},
            "stack_tag": "fleet",
        }
    )
    release = named(found, "one-set-chart", RELEASE).inputs
    assert (release["name"], release["namespace"]) == ("a10", "ci")
    assert release["values"]["listenerTemplate"]["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert release["values"]["controllerServiceAccount"]["namespace"] == "arc"
    assert release["values"]["githubConfigSecret"] == "app"
    pod = launcher(found)
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"pool": "launchers"}, "ci")
    assert (config(found)["set"], config(found)["tags"]) == ("acme-a10", {"gpu-ci/stack": "fleet", "owner": "ci"})
    (rights,) = of_type(found, POLICY)
    assert "request.principal.namespace = 'ci'" in rights.inputs["statements"][0]
    kinds = {each.type.rpartition(":")[2] for each in found.resources}
    assert not kinds & {"Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "Secret"}


@pytest.mark.parametrize(("home", "own"), [("us-ashburn-1", True), ("us-sanjose-1", False)])
def test_the_component_makes_a_provider_for_policies_if_the_home_region_is_another(home, own):
    found = alone(PER_JOB | {"home_region": home, "network_compartment_ids": ["ocid1.compartment.oc1..network"]})
    assert len(of_type(found, POLICY)) == 2
    for rights in of_type(found, POLICY):
        assert rights.provider_urn.endswith("::one-oci-home" if own else "::cloud")
    assert [each.inputs["region"] for each in of_type(found, PROVIDER)] == ["us-sanjose-1", *([home] if own else [])]


def test_the_apps_key_is_secret_even_if_the_program_passes_plain_text():
    found = alone(PER_JOB | {"github_app": APP, "github_private_key": KEY})
    inputs = named(found, "one", "gpu-ci:index:OciGpuRunner").inputs
    assert isinstance(inputs["githubPrivateKey"], Secret)
    assert KEY not in json.dumps([each.inputs for each in found.resources], default=str)
    assert (
        named(found, "one-set-github-app", "kubernetes:core/v1:Secret").urn in named(found, "one-set-chart", RELEASE).dependencies
    )


def test_what_the_component_depends_on_is_created_before_its_children():
    def declare() -> None:
        cloud = oci.Provider("cloud", region="us-sanjose-1")
        cluster = kubernetes.Provider("cluster", kubeconfig="{}")
        first = kubernetes.core.v1.ConfigMap("first", opts=pulumi.ResourceOptions(provider=cluster))
        OciGpuRunner("one", STANDING, pulumi.ResourceOptions(providers=[cloud, cluster], depends_on=[first]))  # type: ignore[arg-type]

    found = build_alone(declare)
    first = named(found, "first", "kubernetes:core/v1:ConfigMap").urn
    namespace = named(found, "one-set-namespace", "kubernetes:core/v1:Namespace")
    children = [each for each in found.resources if each.type.startswith("oci:")] + [namespace]
    assert [each.name for each in children if first not in each.dependencies] == []
    assert len(children) == 4, "configuration, pool, policy, namespace"


@cases(
    ("base", "changes", "words"),
    [
        (STANDING, {"kind": "pod"}, ["kind: must be vm or vm-per-job; write one of them", 'got "pod"']),
        (STANDING, {"count": 0}, ["count: must be at least 1", "got 0"]),
        (STANDING, {"max_runners": 4}, ["maxRunners: only a set of kind vm-per-job has this argument; remove it"]),
        (
            STANDING,
            {"capacity_type": "spot", "shapes": ["VM.GPU3.1"]},
            ["capacityType: OCI does not keep standing machines"],
        ),
        (
            STANDING,
            {"availability_domains": ["abcd:US-ASHBURN-AD-2"]},
            ["availabilityDomains[0]: not an availability domain of us-sanjose-1", 'got "abcd:US-ASHBURN-AD-2"'],
        ),
        (STANDING, {"image": None}, ["image: required key is missing"]),
        (
            STANDING,
            {"image": OWN["image"] | {"id": "ocid1.image.oc1.iad.d"}},
            ["image.id: this OCID belongs to region us-ashburn-1"],
        ),
        (PER_JOB, {"count": 2}, ["count: only a set of kind vm has this argument; remove it"]),
        (PER_JOB, {"max_runners": None}, ["maxRunners: required argument is missing; add it"]),
        (PER_JOB, {"max_runners": 0}, ["maxRunners: must be at least 1", "got 0"]),
        (PER_JOB, {"min_runners": 5}, ["minRunners: min is above max 4", "got 5"]),
        (PER_JOB, {"lifetime": "5m"}, ["lifetime: a lifetime is from 10m to 120h", 'got "5m"']),
        (
            PER_JOB,
            {"places": [THERE]},
            ["places[0]: a place outside of the cluster's region needs its own network and image; add subnet"],
        ),
        (PER_JOB, {"places": [{"region": "us-sanjose-1"}]}, ["places[0].availabilityDomains: required argument is missing"]),
        (PER_JOB, {"cluster_id": None}, ["clusterId: this project's launcher needs it; add it"]),
        (PER_JOB, {"security_group_id": None}, ["securityGroupId: this project's launcher needs it; add it"]),
        (
            PER_JOB,
            {"subnet_id": "ocid1.vcn.oc1.sjc.b"},
            ["subnetId: not an OCID of kind subnet", 'got "ocid1.vcn.oc1.sjc.b"'],
        ),
        (PER_JOB, {"subnet_id": "ocid1.subnet.oc1.iad.b"}, ["subnetId: this OCID belongs to region us-ashburn-1"]),
        (PER_JOB, {"shapes": ["VM.GPU.A10.9"]}, ["shapes[0]:", 'got "VM.GPU.A10.9"']),
        (PER_JOB, {"tags": {"a.b": "c"}}, ["tags.a.b: OCI has tags with keys of", "rename it"]),
        (
            PER_JOB,
            {"github_app": APP | {"app_id": "x"}, "github_private_key": KEY},
            ["githubApp.appId: an id is a quoted"],
        ),
        (CNCF, {"nvkind": True}, ["nvkind: CNCF's launcher has no setting for nvkind; remove it"]),
    ],
)
def test_a_wrong_argument_is_one_error_with_its_path_rule_and_value(base, changes, words):
    with pytest.raises(pulumi.InputPropertyError) as caught:
        alone(base | changes)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_an_output_cannot_decide_what_a_template_contains():
    def declare() -> None:
        program(PER_JOB | {"compartment_id": pulumi.Output.from_input("ocid1.compartment.oc1..machines")})()

    with pytest.raises(pulumi.InputPropertyError, match="compartmentId: must be known when the program runs"):
        build_alone(declare)


def test_an_output_is_checked_once_it_is_known():
    def declare() -> None:
        program(PER_JOB | {"subnet_id": pulumi.Output.from_input("ocid1.vcn.oc1.sjc.b")})()

    empty = StackConfig("gpu-ci", "test", ROOT / "Pulumi.test.yaml", {}, frozenset(), {})
    with pytest.raises(pulumi.InputPropertyError, match="subnetId: not an OCID of kind subnet"):
        record(declare, empty, preview=False)
