"""The registry of a cluster: repositories and caches, who can pull, and which images come from it."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from components.build import build
from components.eks.runner_image import CACHE_ACTIONS, pull_policy
from fleet.facts.versions import PROMETHEUS_IMAGE
from fleet.loading.config import load
from fleet.providers.eks.ecr import KEPT_IMAGES
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import cluster, config, gitops, oke_cluster, runner, vm
from tests.components import oke
from tests.components.built import TAGS, built, planned
from tests.components.recorded import RELEASE, before, build_alone, named, of_type
from tests.day import AS_OF

REPOSITORY = "aws:ecr/repository:Repository"
RULE = "aws:ecr/pullThroughCacheRule:PullThroughCacheRule"
TEMPLATE = "aws:ecr/repositoryCreationTemplate:RepositoryCreationTemplate"
LIFECYCLE = "aws:ecr/lifecyclePolicy:LifecyclePolicy"
READERS = "aws:ecr/repositoryPolicy:RepositoryPolicy"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
AWS_PROVIDER = "pulumi:providers:aws"
DIGEST = f"sha256:{'a' * 64}"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
PUSH_ROLE = "arn:aws:iam::123456789012:role/images"
ADDRESS = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci"
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:ecr-pullthroughcache/"  # noqa: S105 - a name
ECR: dict[str, Any] = {
    "account": "123456789012",
    "pushRole": PUSH_ROLE,
    "runnerImage": {"version": DIGEST, "sizeGb": 12},
    "pullThrough": {
        "docker.io": {"secret": f"{SECRET}hub-AbCdEf"},
        "ghcr.io": {"secret": f"{SECRET}github-AbCdEf"},
        "quay.io": {},
        "registry.k8s.io": {},
    },
    "copies": [PLUGIN],
    "useCopies": True,
}
OCIR: dict[str, Any] = {"namespace": "axexample", "runnerImage": {"version": DIGEST}, "copies": [PLUGIN]}
TENANCY = {"tenancy": "ocid1.tenancy.oc1..example"}
NAMESPACE = "oci:ObjectStorage/getNamespace:getNamespace"


AMIS = {
    "plain": {"buildType": "g4dn.xlarge"},
    "full": {"buildType": "g4dn.xlarge", "prePull": [f"{ADDRESS}/runner-gpu@{DIGEST}"]},
}


@pytest.fixture(scope="module")
def ecr() -> Recording:
    return built(preview=False, clusters={"usw2": cluster(registry=ECR)}, tags=TAGS)


@pytest.fixture(scope="module")
def preview() -> Recording:
    return planned(usw2=cluster(registry=ECR, protect=True, amis=AMIS))


@pytest.fixture(scope="module")
def ocir() -> Recording:
    return built(preview=False, clusters={"sjc": oke_cluster(registry=OCIR, **TENANCY)}, tags=TAGS)


def images(recording: Recording, release: str) -> set[str]:
    """Texts of a release's values that name a registry."""
    words = json.dumps(named(recording, release, RELEASE).inputs["values"]).split('"')
    return {word for word in words if ".amazonaws.com/" in word or (".io/" in word and "/" in word and "@" in word)}


# -- ECR ---------------------------------------------------------------------------------------------------------------


def test_repositories_are_immutable_scanned_and_encrypted_with_one_key(ecr: Recording) -> None:
    found = of_type(ecr, REPOSITORY)
    assert {each.inputs["name"] for each in found} == {"gpu-ci/runner-gpu", "gpu-ci/nvcr.io/nvidia/k8s-device-plugin"}
    (key,) = of_type(ecr, "aws:kms/key:Key")
    assert key.inputs["enableKeyRotation"] is True
    for each in found:
        assert each.inputs["imageTagMutability"] == "IMMUTABLE"
        assert each.inputs["imageScanningConfiguration"] == {"scanOnPush": True}
        (encryption,) = each.inputs["encryptionConfigurations"]
        assert encryption["encryptionType"] == "KMS"
        assert key.urn in each.property_dependencies["encryptionConfigurations"]


def test_the_policies_find_nothing_at_a_cluster_with_a_registry(preview: Recording) -> None:
    verdicts = judge(preview, configure(RULES, {"all": "mandatory", "ecr-hardened": {"requireKms": True}}, AS_OF))
    assert [each for each in verdicts if each.kind == "violation" and "usw2-registry" in each.urn] == []


def test_the_image_in_use_does_not_expire_and_the_newest_builds_stay(ecr: Recording) -> None:
    rules = json.loads(named(ecr, "usw2-registry-runner-gpu-lifecycle", LIFECYCLE).inputs["policy"])["rules"]
    used, builds, untagged = sorted(rules, key=lambda rule: rule["rulePriority"])
    assert used["selection"]["tagPatternList"] == ["used-*"], "a later rule expires nothing that this one selects"
    assert (builds["selection"]["tagPatternList"], builds["selection"]["countNumber"]) == (["build-*"], KEPT_IMAGES)
    assert untagged["selection"]["tagStatus"] == "untagged"


def test_only_nodes_and_the_workflows_role_can_pull(ecr: Recording) -> None:
    for each in of_type(ecr, READERS):
        (statement,) = json.loads(each.inputs["policy"])["Statement"]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Action"] == ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        _, push, services = statement["Condition"]["ArnNotLike"]["aws:PrincipalArn"]
        assert (push, services) == (PUSH_ROLE, "arn:aws:iam::*:role/aws-service-role/*")
        assert statement["Condition"]["Bool"] == {"aws:PrincipalIsAWSService": "false"}
    (template,) = {each.inputs["repositoryPolicy"] for each in of_type(ecr, TEMPLATE)}
    assert template == of_type(ecr, READERS)[0].inputs["policy"], "cached images are as private"
    condition = json.loads(pull_policy(["arn:a", "arn:b"]))["Statement"][0]["Condition"]
    assert condition["ArnNotLike"]["aws:PrincipalArn"][:2] == ["arn:a", "arn:b"]


def test_the_role_of_the_nodes_is_the_one_that_pulls(preview: Recording) -> None:
    role = named(preview, "usw2-node-role", "aws:iam/role:Role").urn
    for each in of_type(preview, READERS):
        assert role in each.property_dependencies["policy"]
    for each in of_type(preview, TEMPLATE):
        assert role in each.property_dependencies["repositoryPolicy"]
        creates = named(preview, "usw2-registry-creates", "aws:iam/role:Role").urn
        assert creates in each.property_dependencies["customRoleArn"], "ECR needs a role for tags and a key"
    assert role in named(preview, "usw2-registry-caches", ROLE_POLICY).property_dependencies["role"]


def test_a_machine_that_builds_an_ami_pulls_only_if_the_ami_has_an_image_of_ecr(preview: Recording) -> None:
    plain, full = (named(preview, f"usw2-{ami}-ami-build-role", "aws:iam/role:Role").urn for ami in AMIS)
    for each in of_type(preview, READERS):
        assert full in each.property_dependencies["policy"]
        assert plain not in each.property_dependencies["policy"]


def test_a_cache_has_its_template_before_and_the_secret_that_it_needs(ecr: Recording) -> None:
    rules = {each.inputs["ecrRepositoryPrefix"]: each for each in of_type(ecr, RULE)}
    assert {prefix: each.inputs["upstreamRegistryUrl"] for prefix, each in rules.items()} == {
        "gpu-ci/docker.io": "registry-1.docker.io",
        "gpu-ci/ghcr.io": "ghcr.io",
        "gpu-ci/quay.io": "quay.io",
        "gpu-ci/registry.k8s.io": "registry.k8s.io",
    }
    assert {prefix: each.inputs.get("credentialArn") for prefix, each in rules.items()} == {
        "gpu-ci/docker.io": f"{SECRET}hub-AbCdEf",
        "gpu-ci/ghcr.io": f"{SECRET}github-AbCdEf",
        "gpu-ci/quay.io": None,
        "gpu-ci/registry.k8s.io": None,
    }
    for each in of_type(ecr, TEMPLATE):
        rule = rules[each.inputs["prefix"]]
        assert each.urn in before(ecr, rule)
        assert each.inputs["imageTagMutability"] == "MUTABLE", "ECR moves the tags of cached images"
        assert each.inputs["appliedFors"] == ["PULL_THROUGH_CACHE"]
        assert each.inputs["resourceTags"]["gpu-ci/stack"] == "test"


def test_nodes_may_fill_the_caches_and_nothing_else(ecr: Recording) -> None:
    policy = named(ecr, "usw2-registry-caches", ROLE_POLICY)
    (statement,) = json.loads(policy.inputs["policy"])["Statement"]
    assert statement["Action"] == list(CACHE_ACTIONS)
    repositories = "arn:aws:ecr:us-west-2:123456789012:repository/gpu-ci"
    assert statement["Resource"] == [f"{repositories}/{host}/*" for host in ECR["pullThrough"]]


def test_up_refuses_the_credentials_of_another_account(ecr: Recording) -> None:
    (provider,) = of_type(ecr, AWS_PROVIDER)
    assert json.loads(provider.inputs["allowedAccountIds"]) == ["123456789012"]
    (other,) = of_type(planned(usw2=cluster()), AWS_PROVIDER)
    assert "allowedAccountIds" not in other.inputs


def test_charts_and_runners_pull_from_the_registry_once_it_is_there(ecr: Recording) -> None:
    assert images(ecr, "usw2-gpu-t4-chart") == {f"{ADDRESS}/runner-gpu@{DIGEST}"}
    assert images(ecr, "usw2-arc-chart") == {f"{ADDRESS}/ghcr.io/actions/gha-runner-scale-set-controller"}
    assert images(ecr, "usw2-device-plugin-chart") == {f"{ADDRESS}/{PLUGIN.partition(':')[0]}"}
    assert images(ecr, "usw2-autoscaler-chart") == {f"{ADDRESS}/registry.k8s.io/autoscaling/cluster-autoscaler"}
    (registry,) = [each for each in ecr.resources if each.name == "usw2-registry"]
    release = named(ecr, "usw2-arc-chart", RELEASE)
    assert named(ecr, "usw2-registry-ghcr.io", RULE).urn in release.dependencies, f"a pod would wait for {registry.urn}"


@pytest.fixture(scope="module")
def own() -> Recording:
    """A runner class with an image of its own, and a chart whose copy is not used yet."""
    runners = {"gpu-t4": runner(image="example/runner:1.2.3")}
    return planned(usw2=cluster(registry=ECR | {"useCopies": False}, runners=runners))


def test_a_copy_is_used_only_when_the_settings_say_so(own: Recording) -> None:
    assert images(own, "usw2-device-plugin-chart") == set()
    assert len(of_type(own, REPOSITORY)) == 2, "the workflow needs the repository before"


def test_a_class_with_an_image_keeps_it_and_pulls_it_through_the_cache(own: Recording) -> None:
    assert images(own, "usw2-gpu-t4-chart") == {f"{ADDRESS}/docker.io/example/runner:1.2.3"}


def test_what_git_has_pulls_from_the_registry_too() -> None:
    from components.context import Context
    from components.kubernetes import git_tree

    fleet = load(config(clusters={"usw2": cluster(registry=ECR, delivery="argocd", gitops=gitops())}, tags=TAGS))
    recording = build_alone(lambda: git_tree.declare("usw2", fleet.clusters["usw2"], fleet, Context("gpu-ci", "test", {})))
    text = json.dumps([each.inputs for each in recording.resources])
    assert f"{ADDRESS}/ghcr.io/actions/gha-runner-scale-set-controller" in text
    assert f"{ADDRESS}/runner-gpu@{DIGEST}" in text
    assert '"image": "ghcr.io/' not in text


# -- OCI ---------------------------------------------------------------------------------------------------------------


def test_oci_repositories_are_private_and_immutable_and_the_runner_image_is_scanned(ocir: Recording) -> None:
    found = of_type(ocir, "oci:Artifacts/containerRepository:ContainerRepository")
    assert {each.inputs["displayName"] for each in found} == {"gpu-ci/runner-gpu", "gpu-ci/nvcr.io/nvidia/k8s-device-plugin"}
    assert {(each.inputs["isImmutable"], each.inputs["isPublic"]) for each in found} == {(True, False)}
    (target,) = of_type(ocir, "oci:VulnerabilityScanning/containerScanTarget:ContainerScanTarget")
    assert target.inputs["targetRegistry"]["repositories"] == ["gpu-ci/runner-gpu"]


def test_only_machines_of_the_clusters_compartment_read_its_repositories(ocir: Recording) -> None:
    (group,) = of_type(ocir, "oci:Identity/dynamicGroup:DynamicGroup")
    compartment = oke_cluster()["compartment"]
    assert group.inputs["matchingRule"] == f"ALL {{instance.compartment.id = '{compartment}'}}"
    assert group.inputs["compartmentId"] == TENANCY["tenancy"]
    statements = named(ocir, "sjc-registry-readers", oke.POLICY).inputs["statements"]
    assert statements[0] == (
        f"Allow dynamic-group gpu-ci-test-sjc-nodes to read repos in compartment id {compartment} "
        "where target.repo.name = /gpu-ci*/"
    )


def test_runners_on_oke_use_the_image_of_the_regions_registry(ocir: Recording) -> None:
    text = json.dumps([each.inputs for each in of_type(ocir, RELEASE)])
    assert f"ocir.us-sanjose-1.oci.oraclecloud.com/axexample/gpu-ci/runner-gpu@{DIGEST}" in text


@pytest.fixture(scope="module")
def with_machines() -> Recording:
    """A registry on OCI that machines use."""
    registry = OCIR | {"copies": [PROMETHEUS_IMAGE], "useCopies": True}
    changes = {
        "monitoring": {"prometheus": "install"},
        "pools": {},
        "runners": {"vm": vm()},
        "machineCompartment": "ocid1.compartment.oc1..jobs",
    }
    return planned(sjc=oke_cluster(registry=registry, **changes, **TENANCY))


def test_the_gateway_of_machines_pulls_from_the_registry(with_machines: Recording) -> None:
    (pod,) = (each.inputs["spec"]["template"]["spec"] for each in of_type(with_machines, "kubernetes:apps/v1:Deployment"))
    (agent,) = pod["containers"]
    assert agent["image"] == f"ocir.us-sanjose-1.oci.oraclecloud.com/axexample/gpu-ci/{PROMETHEUS_IMAGE}"


def test_up_refuses_the_credentials_of_another_tenancy() -> None:
    described = load(config(clusters={"sjc": oke_cluster(registry=OCIR, pools={}, runners={}, **TENANCY)}, tags=TAGS))
    answers = {**oke.ANSWERS, NAMESPACE: lambda _: {"namespace": "other"}}

    def program() -> None:
        build(described, "gpu-ci", "test", {"default": pulumi.Output.secret("a made-up key")})

    with pytest.raises(Exception, match=r"registry\.namespace is axexample, and the credentials belong to the tenancy of other"):
        build_alone(program, preview=False, answers=answers)


def test_a_preview_of_a_registry_on_oci_asks_for_nothing_that_a_plan_lacks(with_machines: Recording) -> None:
    assert of_type(with_machines, "oci:Artifacts/containerRepository:ContainerRepository")
