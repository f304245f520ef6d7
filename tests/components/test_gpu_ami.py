"""The pipeline of a node image as EC2 Image Builder's API takes it, and the nodes that run such an image."""

from __future__ import annotations

import base64
import email
import json
import re
from collections.abc import Mapping
from typing import Any

import botocore.session
import jsonschema
import pulumi
import pulumi_aws as aws
import pytest
from botocore.model import Shape
from botocore.validate import ParamValidator

from components.eks.gpu_node_group import GpuNodeGroup
from fleet.facts.yaml_text import kubernetes_documents
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import UNKNOWN
from policies.rules import RULES
from tests.builders import NODE_CONFIG, cluster, existing_eks, pool, reference, runner
from tests.cases import cases
from tests.components.built import built as whole_stack
from tests.components.recorded import build_alone, named, of_type
from tests.day import AS_OF

ID = "ami-0123456789abcdef0"
BUILT = {"id": ID, "release": "1.34.9-20260714"}
BUILDER = "aws:imagebuilder"
COMPONENT, RECIPE = f"{BUILDER}/component:Component", f"{BUILDER}/imageRecipe:ImageRecipe"
MACHINE = f"{BUILDER}/infrastructureConfiguration:InfrastructureConfiguration"
DISTRIBUTION = f"{BUILDER}/distributionConfiguration:DistributionConfiguration"
PIPELINE, LIFECYCLE = f"{BUILDER}/imagePipeline:ImagePipeline", f"{BUILDER}/lifecyclePolicy:LifecyclePolicy"
GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
ARN = "arn:aws:imagebuilder:us-west-2:123456789012"
KNOWN_LATER = {
    "imageRecipeArn": f"{ARN}:image-recipe/gpu-ci-test-usw2-gpu/1.0.1",
    "infrastructureConfigurationArn": f"{ARN}:infrastructure-configuration/machine",
    "distributionConfigurationArn": f"{ARN}:distribution-configuration/where",
    "componentArn": f"{ARN}:component/usw2-gpu-ami/1.0.0/1",
    "executionRole": "arn:aws:iam::123456789012:role/retirement",
    "instanceProfileName": "profile",
    "subnetId": "subnet-0123456789abcdef0",
    "securityGroupIds": ["sg-0123456789abcdef0"],
}
"""What AWS returns for the outputs that a preview does not know."""


def built(*, created: bool = True, of_pool: Mapping[str, Any] | None = None, **changes: Any) -> Recording:
    """A cluster whose pool t4 uses the image gpu, with these changes of the image."""
    image = {"buildType": "g4dn.xlarge"} | changes
    make = cluster if created else existing_eks
    held = make(amis={"gpu": image}, pools={"t4": pool(ami="gpu", **(of_pool or {}))}, runners={"gpu-t4": runner()})
    return whole_stack(clusters={"usw2": held})


@pytest.fixture(scope="module")
def whole() -> Recording:
    """An image with every setting."""
    image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/runner@sha256:{'a' * 64}"
    return built(prePull=[image], regions=["us-east-1"], keep=5, schedule="cron(0 4 1 * ? *)", built=BUILT, disk="80Gi")


def inputs(recording: Recording, token: str) -> dict[str, Any]:
    (found,) = of_type(recording, token)
    return dict(found.inputs)


# -- the API -----------------------------------------------------------------------------------------------------------


def request(token: str, found: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The operation that creates a resource, and its parameters as the provider sends them."""
    operation = "Create" + token.rpartition(":")[2]
    renamed = {"version": "semanticVersion"}
    if token == RECIPE:
        (mapping,) = found["blockDeviceMappings"]
        flags = {key: value == "true" for key, value in mapping["ebs"].items() if value in ("true", "false")}
        found = {**found, "blockDeviceMappings": [{**mapping, "ebs": mapping["ebs"] | flags}]}
    sent = {renamed.get(key, key): value for key, value in found.items()}
    # The provider makes a name where we give none.
    return operation, {"name": "usw2-gpu-ami-1234567", "clientToken": "token", **later(sent)}


def later(value: Any, key: str = "") -> Any:
    """The value with an example in place of each unknown one."""
    if isinstance(value, Mapping):
        return {inner: later(held, inner) for inner, held in value.items()}
    if key in KNOWN_LATER and (value is UNKNOWN or (isinstance(value, list) and UNKNOWN in value)):
        return KNOWN_LATER[key]
    return [later(each) for each in value] if isinstance(value, list) else value


def broken(shape: Shape, value: Any, path: str = "") -> list[str]:
    """Paths whose value is not in the shape's enum or does not match its pattern, which botocore itself does not check."""
    if shape.type_name == "structure":
        return [each for key, held in value.items() for each in broken(shape.members[key], held, f"{path}.{key}")]
    if shape.type_name == "list":
        return [each for held in value for each in broken(shape.member, held, f"{path}[]")]
    allowed, pattern = shape.metadata.get("enum"), shape.metadata.get("pattern")
    wrong = (allowed and value not in allowed) or (
        pattern and isinstance(value, str) and not re.search(pattern.replace("\\x00", "\0"), value)
    )
    return [f"{path}: {value}"] if wrong else []


@cases("token", [COMPONENT, RECIPE, MACHINE, DISTRIBUTION, PIPELINE, LIFECYCLE])
def test_the_api_takes_each_resource(whole: Recording, token: str) -> None:
    operation, sent = request(token, inputs(whole, token))
    shape = botocore.session.get_session().get_service_model("imagebuilder").operation_model(operation).input_shape
    assert shape is not None
    report = ParamValidator().validate(sent, shape)
    assert not report.has_errors(), report.generate_report()
    assert broken(shape, sent) == []


def test_the_check_of_the_api_finds_what_is_wrong(whole: Recording) -> None:
    shape = botocore.session.get_session().get_service_model("imagebuilder").operation_model("CreateImageRecipe").input_shape
    assert shape is not None
    _, sent = request(RECIPE, inputs(whole, RECIPE))
    assert broken(shape, sent | {"semanticVersion": "latest"}) == [".semanticVersion: latest"]
    assert ParamValidator().validate(sent | {"disk": 1}, shape).has_errors()


# -- the pipeline ------------------------------------------------------------------------------------------------------


def test_the_image_starts_from_a_release_and_has_an_encrypted_disk(whole: Recording) -> None:
    found = inputs(whole, RECIPE)
    assert found["parentImage"] == (
        "ssm:/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/"
        "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20260714/image_id"
    )
    assert found["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/xvda",
            "ebs": {"volumeSize": 80, "volumeType": "gp3", "encrypted": "true", "deleteOnTermination": "true"},
        }
    ]


def test_the_machine_that_builds_has_no_way_in_and_few_rights(whole: Recording) -> None:
    found = inputs(whole, MACHINE)
    assert found["instanceTypes"] == ["g4dn.xlarge"]
    assert found["instanceMetadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert found["terminateInstanceOnFailure"] is True, "a failed build must not leave a GPU machine running"
    group = named(whole, "usw2-gpu-ami-group", "aws:ec2/securityGroup:SecurityGroup").inputs
    assert "ingress" not in group
    assert [(rule["fromPort"], rule["toPort"]) for rule in group["egress"]] == [(443, 443)]


def rights(recording: Recording) -> set[str]:
    """Policies of the role of the machine that builds."""
    attached = of_type(recording, "aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    return {each.inputs["policyArn"].rpartition("/")[2] for each in attached if "-ami-build-" in each.name}


def test_the_machine_may_pull_from_ecr_only_if_an_image_is_there(whole: Recording) -> None:
    always = {"EC2InstanceProfileForImageBuilder", "AmazonSSMManagedInstanceCore"}
    assert rights(whole) == always | {"AmazonEC2ContainerRegistryPullOnly"}
    assert rights(built()) == always


def test_the_test_on_a_gpu_runs_before_the_image_is_distributed(whole: Recording) -> None:
    found = inputs(whole, PIPELINE)
    assert found["imageTestsConfiguration"]["imageTestsEnabled"] is True
    assert found["schedule"] == {
        "scheduleExpression": "cron(0 4 1 * ? *)",
        "pipelineExecutionStartCondition": "EXPRESSION_MATCH_ONLY",
    }
    assert "schedule" not in inputs(built(), PIPELINE), "by default nothing runs that costs money"
    assert [each["region"] for each in inputs(whole, DISTRIBUTION)["distributions"]] == ["us-west-2", "us-east-1"]


def test_old_images_go_and_the_one_in_use_stays(whole: Recording) -> None:
    found = inputs(whole, LIFECYCLE)
    tag = {"gpu-ci/in-use": "true"}
    assert [each["exclusionRules"]["amis"] for each in found["policyDetails"]] == [{"tagMap": tag}] * 2
    actions = {each["action"]["type"]: (each["filter"], each["action"]["includeResources"]) for each in found["policyDetails"]}
    assert actions["DELETE"] == ({"type": "COUNT", "value": 5}, {"amis": True, "snapshots": True})
    (selected,) = found["resourceSelection"]["recipes"]
    assert selected == {"name": inputs(whole, RECIPE)["name"], "semanticVersion": "x.x.x"}, "all versions of the recipe"
    in_use = named(whole, "usw2-gpu-ami-in-use", "aws:ec2/tag:Tag").inputs
    assert (in_use["resourceId"], {in_use["key"]: in_use["value"]}) == (ID, tag)
    assert of_type(built(), "aws:ec2/tag:Tag") == ()


def test_a_cluster_that_exists_already_gets_the_same_pipeline() -> None:
    found = built(created=False, built=BUILT)
    assert inputs(found, MACHINE)["subnetId"] == "subnet-0aaaaaaaaaaaaaaa1"
    assert inputs(found, RECIPE)["name"] == "gpu-ci-test-usw2-gpu"


# -- the nodes ---------------------------------------------------------------------------------------------------------


def test_a_pool_runs_aws_image_until_its_own_is_built() -> None:
    found = built()
    (group,) = {each.inputs["amiType"] for each in of_type(found, GROUP) if "-t4-" in each.name}
    assert group == "AL2023_x86_64_NVIDIA"
    template = named(found, "usw2-t4-launch", TEMPLATE).inputs
    assert not {"imageId", "userData"} & template.keys(), "not a node changes before the image is there"


@pytest.mark.parametrize("created", [True, False], ids=["created", "existing"])
def test_a_group_with_an_image_of_its_own_has_no_version_and_the_template_the_image(created: bool) -> None:
    found = built(created=created, built=BUILT)
    groups = [each.inputs for each in of_type(found, GROUP) if "-t4-" in each.name]
    assert groups
    for group in groups:
        assert group["amiType"] == "CUSTOM", "EKS refuses every other type beside an image id"
        assert not {"version", "releaseVersion"} & group.keys(), "EKS refuses a version beside an image id"
        assert group["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
        assert group["labels"]["nvidia.com/gpu"] == "true", "the autoscaler reads the labels of the group"
    template = named(found, "usw2-t4-launch", TEMPLATE).inputs
    assert template["imageId"] == ID
    assert template["userData"] is UNKNOWN, "the address of the API server is known when the control plane is created"


def test_the_policies_accept_the_image_and_its_pipeline(whole: Recording) -> None:
    found = judge(whole, configure(RULES, {rule.id: rule.levels["prod"] for rule in RULES}, AS_OF))
    ours = {"ami-and-node-version-pinned", "node-role-least-privilege", "gpu-node-taint", "volumes-encrypted"}
    assert [each for each in found if each.rule in ours] == []


def nodes(**changes: Any) -> dict[str, Any]:
    """The NodeConfig of a group with an image of its own."""

    def program() -> None:
        cloud = aws.Provider("cloud", region="us-west-2")
        arguments: Any = {
            "cluster_name": "theirs",
            "kubernetes_version": "1.34",
            "node_role_arn": "arn:aws:iam::123456789012:role/nodes",
            "subnet_ids": {"us-west-2a": "subnet-0123456789abcdef0"},
            "instance_types": ["g6.2xlarge"],
            "max_nodes": 4,
            "ami_id": ID,
            "cluster_endpoint": "https://0123.gr7.us-west-2.eks.amazonaws.com",
            "cluster_certificate_authority": "Y2VydGlmaWNhdGU=",
            "service_cidr": "172.20.0.0/16",
        }
        GpuNodeGroup("l4", arguments | changes, pulumi.ResourceOptions(providers=[cloud]))

    template = named(build_alone(program, f"{changes}"), "l4-launch", TEMPLATE).inputs
    message: Any = email.message_from_string(base64.b64decode(template["userData"]).decode())
    (part,) = message.get_payload()
    (found,) = kubernetes_documents("user data", part.get_payload())
    assert isinstance(found.value, dict)
    return found.value


def test_a_node_has_all_that_it_needs_to_join() -> None:
    spec = nodes()["spec"]
    assert spec["cluster"] == {
        "name": "theirs",
        "apiServerEndpoint": "https://0123.gr7.us-west-2.eks.amazonaws.com",
        "certificateAuthority": "Y2VydGlmaWNhdGU=",
        "cidr": "172.20.0.0/16",
    }
    labels, taints = spec["kubelet"]["flags"]
    assert taints == "--register-with-taints=nvidia.com/gpu=true:NoSchedule", "without it any pod takes the GPU machine"
    given = dict(label.split("=", 1) for label in labels.removeprefix("--node-labels=").split(","))
    assert {"nvidia.com/gpu": "true", "gpu-ci/pool": "l4", "gpu-ci/cluster": "theirs"}.items() <= given.items()


def test_settings_of_the_nodes_stand_beside_what_a_node_needs_to_join() -> None:
    config = {key: NODE_CONFIG[key] for key in ("kubelet", "featureGates")}
    spec = nodes(instance_types=["g6.4xlarge"], node_config=config, disk_performance={"throughput": 600})["spec"]
    assert spec["kubelet"]["config"]["podPidsLimit"] == 4096
    assert len(spec["kubelet"]["flags"]) == 2
    assert spec["featureGates"] == {"FastImagePull": True}
    assert "cluster" in spec


def test_nodeadms_schema_accepts_the_document() -> None:
    schema = json.loads(reference("starts/nodeconfig_v1alpha1.json").read_text(encoding="utf-8"))
    jsonschema.validate(nodes(), schema)
