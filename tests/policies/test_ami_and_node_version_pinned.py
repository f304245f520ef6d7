"""ami-and-node-version-pinned: what is a pin on each kind, and what is looked up later."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts import versions
from fleet.facts.eks_images import BAD_BUILDS
from policies.rules.ami_and_node_version_pinned import RULE
from policies.rules.kinds import (
    EC2_INSTANCE,
    EC2_NODE_CLASS,
    LAUNCH_TEMPLATE,
    OCI_INSTANCE,
    OCI_INSTANCE_CONFIGURATION,
    SPOT_REQUEST,
)
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, changed, default, judge, said
from tests.policies.pool_fixtures import EKS, OKE, SPOT, V100
from tests.policies.suite import Suite

VERSIONS = default(RULE, "kubernetesVersions")

IMAGE = "ocid1.image.oc1.iad.example"
GROUP = SPOT | {"releaseVersion": "1.34.9-20260714", "version": "1.34"}
POOL = V100 | {"kubernetesVersion": "v1.34.2", "nodeSourceDetails": {"sourceType": "IMAGE", "imageId": IMAGE}}
AMI = {"ami": "ami-0123456789abcdef0", "instanceType": "g5.xlarge"}
NODE_CLASS = {"spec": {"amiSelectorTerms": [{"alias": "al2023@v20260714"}]}}
MACHINE = {"sourceDetails": {"sourceType": "image", "sourceId": IMAGE}}
CONFIGURATION = {"instanceDetails": {"launchDetails": {"sourceDetails": {"sourceType": "image", "imageId": IMAGE}}}}
LAUNCH = ("instanceDetails", "launchDetails", "sourceDetails")
FILTER = {"instanceSourceImageFilterDetails": {"compartmentId": "ocid1.compartment.oc1..example"}}
TERMS = ("spec", "amiSelectorTerms")


def release_fault(shown: str = "not set") -> str:
    return (
        f"releaseVersion is {shown}: EKS then takes the newest image whenever it changes the group; write one such as "
        "1.2.3-20260131"
    )


def ami_fault(field: str, shown: str) -> str:
    return f"{field} is {shown}: an image is pinned by its id; write ami-…"


def image_fault(path: str, shown: str = "not set") -> str:
    return f"{path} is {shown}: an image is pinned by its OCID; write ocid1.image.…"


def filter_fault(path: str) -> str:
    return (
        f"{path}.instanceSourceImageFilterDetails is set: a filter takes whatever image is newest; name one by its OCID instead"
    )


def newest(index: int = 0) -> str:
    return (
        f"spec.amiSelectorTerms[{index}] selects whatever is newest: nodes then change by themselves; write an id, a whole name, "
        "or an alias with a version such as al2023@v20260131"
    )


def version_fault(field: str, shown: str, listed: str = ", ".join(VERSIONS)) -> str:
    return f"{field} is {shown}: nodes need a supported Kubernetes version; write one of {listed}"


@pytest.mark.parametrize("release", ["1.34.9-20260714", "1.19.2-29cc92cc", "1.29-2024.03.12"])
def test_a_release_of_any_family_is_a_pin(release: str) -> None:
    assert judge(RULE, EKS, GROUP | {"releaseVersion": release}) == CLEAN


@pytest.mark.parametrize(("release", "shown"), [(REMOVE, "not set"), ("latest", '"latest"'), ("1.34", '"1.34"'), (7, "7")])
def test_a_group_names_its_release(release: Any, shown: str) -> None:
    assert judge(RULE, EKS, changed(GROUP, "releaseVersion", release)) == said(release_fault(shown))


@pytest.mark.parametrize("build", BAD_BUILDS)
def test_a_build_whose_kernel_panics_is_refused(build: str) -> None:
    fault = f'releaseVersion is "1.35.8-{build}": its kernel panics (awslabs/amazon-eks-ami#2845); write another build'
    assert judge(RULE, EKS, GROUP | {"releaseVersion": f"1.35.8-{build}"}) == said(fault)


def test_a_group_of_a_custom_image_has_it_in_its_template() -> None:
    assert judge(RULE, EKS, changed(GROUP, "releaseVersion", REMOVE) | {"amiType": "CUSTOM"}) == CLEAN


@pytest.mark.parametrize(
    ("version", "shown"), [("1.29", '"1.29"'), ("1.3", '"1.3"'), ("1.340", '"1.340"'), (1.34, "1.34"), ("", '""')]
)
def test_nodes_are_of_a_supported_version(version: Any, shown: str) -> None:
    assert judge(RULE, EKS, GROUP | {"version": version}) == said(version_fault("version", shown))


def test_a_group_without_a_version_follows_its_cluster() -> None:
    assert judge(RULE, EKS, changed(GROUP, "version", REMOVE)) == CLEAN


def test_the_versions_are_configurable() -> None:
    config = {"kubernetesVersions": ["1.33", "1.35"]}
    assert judge(RULE, OKE, POOL | {"kubernetesVersion": "v1.35.1"}, config) == CLEAN
    assert judge(RULE, OKE, POOL, config) == said(version_fault("kubernetesVersion", '"v1.34.2"', "1.33, 1.35"))


def test_the_default_is_what_this_project_pins() -> None:
    assert tuple(versions.KUBERNETES) == VERSIONS


@pytest.mark.parametrize("image", ["resolve:ssm:/aws/service/eks/optimized-ami/1.34/recommended", "al2023", "ami", "AMI-1"])
def test_what_ec2_looks_up_later_is_no_pin(image: str) -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, {"imageId": image}) == said(ami_fault("imageId", f'"{image}"'))
    assert judge(RULE, EC2_INSTANCE, AMI | {"ami": image}) == said(ami_fault("ami", f'"{image}"'))


@pytest.mark.parametrize("token", [EC2_INSTANCE, SPOT_REQUEST])
def test_an_instance_has_an_image_or_a_template(token: str) -> None:
    assert judge(RULE, token, changed(AMI, "ami", REMOVE)) == said(ami_fault("ami", "not set"))
    assert judge(RULE, token, {"launchTemplate": {"id": "lt-1"}}) == CLEAN


def test_a_template_without_an_image_leaves_it_to_the_group() -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, {"namePrefix": "gpu"}) == CLEAN


@pytest.mark.parametrize(
    ("term", "pins"),
    [
        ({"id": "ami-0123"}, True),
        ({"alias": "al2023@v20260714"}, True),
        ({"alias": "bottlerocket@v1.20.3"}, True),
        ({"alias": "al2023@latest"}, False),
        ({"alias": "al2023"}, False),
        ({"name": "gpu-ci-2026-07-14"}, True),
        ({"name": "gpu-ci-*"}, False),
        ({"ssmParameter": "/aws/service/eks/optimized-ami/1.34/recommended"}, False),
        ({"tags": {"team": "ci"}}, False),
        ({}, False),
    ],
)
def test_a_selector_of_karpenter_means_one_image(term: dict[str, Any], pins: bool) -> None:
    found = judge(RULE, EC2_NODE_CLASS, changed(NODE_CLASS, *TERMS, [{"id": "ami-1"}, term]))
    assert found == (CLEAN if pins else said(newest(1)))


@pytest.mark.parametrize("terms", [[], None, REMOVE])
def test_a_node_class_selects_images(terms: Any) -> None:
    (message,) = judge(RULE, EC2_NODE_CLASS, changed(NODE_CLASS, *TERMS, terms)).messages
    assert message.endswith(": it names the images of nodes; write an id, or an alias with a version")


def test_an_oke_pool_names_its_image_in_either_place() -> None:
    bare = changed(POOL, "nodeSourceDetails", REMOVE)
    assert judge(RULE, OKE, bare) == said(image_fault("nodeSourceDetails.imageId"))
    assert judge(RULE, OKE, bare | {"nodeImageId": IMAGE}) == CLEAN
    assert judge(RULE, OKE, bare | {"nodeImageName": "Oracle-Linux-9"}) == said(image_fault("nodeSourceDetails.imageId"))


def test_a_filter_of_images_is_no_pin() -> None:
    assert judge(RULE, OCI_INSTANCE, {"sourceDetails": FILTER | {"sourceType": "image"}}) == said(filter_fault("sourceDetails"))
    assert judge(RULE, OCI_INSTANCE_CONFIGURATION, changed(CONFIGURATION, *LAUNCH, FILTER)) == said(
        filter_fault(".".join(LAUNCH))
    )


def test_a_boot_volume_is_its_own_image() -> None:
    volume = {"sourceType": "bootVolume", "bootVolumeId": "ocid1.bootvolume.oc1..example"}
    assert judge(RULE, OCI_INSTANCE_CONFIGURATION, changed(CONFIGURATION, *LAUNCH, volume)) == CLEAN
    assert judge(RULE, OCI_INSTANCE, {"sourceDetails": {"sourceType": "bootVolume", "sourceId": "ocid1.bootvolume.x"}}) == CLEAN
    assert judge(RULE, OCI_INSTANCE, {"image": IMAGE}) == CLEAN


def test_options_of_a_configuration_are_judged_each() -> None:
    good = CONFIGURATION["instanceDetails"]
    props = {"instanceDetails": {"options": [good, {"launchDetails": {}}]}}
    assert judge(RULE, OCI_INSTANCE_CONFIGURATION, props) == said(
        image_fault("instanceDetails.options[1].launchDetails.sourceDetails.imageId")
    )
    assert judge(RULE, OCI_INSTANCE_CONFIGURATION, {"instanceDetails": {"options": [good]}}) == CLEAN


def test_an_image_that_is_looked_up_is_undeterminable() -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, {"imageId": "ami-1"}, unknown=("imageId",)) == said(unknown="imageId")
    assert judge(RULE, EKS, GROUP, unknown=("releaseVersion",)) == said(unknown="releaseVersion")
    assert judge(RULE, EKS, GROUP, unknown=("amiType",)) == CLEAN
    found = judge(RULE, EKS, GROUP | {"version": "1.29"}, unknown=("releaseVersion",))
    assert found == said(version_fault("version", '"1.29"'), unknown="releaseVersion")


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS, GROUP),
        Case(EKS, GROUP | {"version": "1.35"}, config={"kubernetesVersions": ["1.35"]}),
        Case(LAUNCH_TEMPLATE, {"namePrefix": "gpu"}),
        Case(LAUNCH_TEMPLATE, {"imageId": "ami-0123456789abcdef0"}),
        Case(EC2_INSTANCE, AMI),
        Case(SPOT_REQUEST, AMI),
        Case(EC2_NODE_CLASS, NODE_CLASS),
        Case(OKE, POOL),
        Case(OCI_INSTANCE, MACHINE),
        Case(OCI_INSTANCE_CONFIGURATION, CONFIGURATION),
    ),
    violating=(
        Case(EKS, changed(GROUP, "releaseVersion", REMOVE), (release_fault(),)),
        Case(EKS, GROUP, (version_fault("version", '"1.34"', "1.35"),), config={"kubernetesVersions": ["1.35"]}),
        Case(LAUNCH_TEMPLATE, {"imageId": "resolve:ssm:/gpu"}, (ami_fault("imageId", '"resolve:ssm:/gpu"'),)),
        Case(EC2_INSTANCE, {"instanceType": "g5.xlarge"}, (ami_fault("ami", "not set"),)),
        Case(SPOT_REQUEST, {"instanceType": "g5.xlarge"}, (ami_fault("ami", "not set"),)),
        Case(EC2_NODE_CLASS, changed(NODE_CLASS, *TERMS, 0, "alias", "al2023@latest"), (newest(),)),
        Case(OKE, POOL | {"kubernetesVersion": "v1.29.1"}, (version_fault("kubernetesVersion", '"v1.29.1"'),)),
        Case(OKE, changed(POOL, "nodeSourceDetails", "imageId", ""), (image_fault("nodeSourceDetails.imageId", '""'),)),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}, (image_fault("sourceDetails.sourceId"),)),
        Case(
            OCI_INSTANCE_CONFIGURATION,
            {"instanceDetails": {}},
            (image_fault("instanceDetails.launchDetails.sourceDetails.imageId"),),
        ),
    ),
)
