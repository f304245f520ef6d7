"""Build caches as resources: a private bucket that expires, roles with the documents of the access matrix, the right account."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from components.build import build
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import build_caches, cluster, config, existing_eks
from tests.components.built import TAGS
from tests.components.recorded import before, build_alone, named, of_type
from tests.components.test_caches import made
from tests.day import AS_OF
from tests.fleet.cache_jobs import documents

BUCKET = "example-ccache"
NAME = f"usw2-build-caches.{BUCKET}"
PROVIDER = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
ROLE, RIGHTS = "aws:iam/role:Role", "aws:iam/rolePolicy:RolePolicy"
S3 = "aws:s3/{}"


def cached(settings: Any = cluster, **changes: Any) -> dict[str, Any]:
    of_cluster = {key: changes.pop(key) for key in ("protect",) if key in changes}
    described: dict[str, Any] = settings(buildCaches=build_caches() | changes, **of_cluster)
    return described


def fleet() -> Fleet:
    return load(config(clusters={"usw2": cached()}, tags=TAGS))


@pytest.fixture(scope="module")
def created() -> Recording:
    return made(usw2=cached(oidcProvider="create"))


def bucket_part(recording: Recording, name: str, kind: str) -> dict[str, Any]:
    return dict(named(recording, name, f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}").inputs)


def test_a_bucket_is_private_encrypted_and_forgets(created: Recording) -> None:
    made_bucket = bucket_part(created, NAME, "Bucket")
    assert (made_bucket["bucket"], made_bucket["forceDestroy"]) == (BUCKET, True)
    block = bucket_part(created, f"{NAME}-block", "BucketPublicAccessBlock")
    assert {block[key] for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")} == {True}
    encryption = bucket_part(created, f"{NAME}-encryption", "BucketServerSideEncryptionConfiguration")
    assert encryption["rules"] == [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]
    (rule,) = bucket_part(created, f"{NAME}-expiry", "BucketLifecycleConfiguration")["rules"]
    assert (rule["status"], rule["expiration"]) == ("Enabled", {"days": 14})


def test_a_bucket_of_a_protected_cluster_with_objects_stays() -> None:
    assert bucket_part(made(usw2=cached(protect=True)), NAME, "Bucket")["forceDestroy"] is False


def test_the_documents_are_those_that_the_matrix_evaluates(created: Recording) -> None:
    caches = fleet().clusters["usw2"].build_caches
    proved = documents(caches.account, BUCKET, caches.buckets[BUCKET], "usw2-network-vpc-id")
    policy = bucket_part(created, f"{NAME}-policy", "BucketPolicy")["policy"]
    assert json.loads(policy) == proved.policy
    for right in ("read", "write"):
        role = named(created, f"{NAME}-{right}", ROLE)
        assert role.inputs["name"] == f"{BUCKET}-{right}", "the bucket's policy and workflow files name it"
        assert json.loads(role.inputs["assumeRolePolicy"]) == proved.trusts[right]
        assert json.loads(named(created, f"{NAME}-{right}", RIGHTS).inputs["policy"]) == proved.permissions[right]


def test_a_role_waits_for_the_provider_and_the_policy_for_the_block(created: Recording) -> None:
    (provider,) = of_type(created, PROVIDER)
    assert provider.inputs["url"] == "https://token.actions.githubusercontent.com"
    assert provider.inputs["clientIdLists"] == ["sts.amazonaws.com"]
    assert provider.urn in before(created, named(created, f"{NAME}-write", ROLE))
    block = named(created, f"{NAME}-block", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
    assert block.urn in before(created, named(created, f"{NAME}-policy", "aws:s3/bucketPolicy:BucketPolicy"))


@pytest.mark.parametrize("settings", [cluster, existing_eks])
def test_an_existing_provider_is_not_created_again(settings: Any) -> None:
    recording = made(usw2=cached(settings))
    assert of_type(recording, PROVIDER) == ()
    assert named(recording, f"{NAME}-write", ROLE)


def test_up_runs_in_the_account_of_the_settings_alone(created: Recording) -> None:
    aws = named(created, "usw2-aws", "pulumi:providers:aws")
    assert aws.inputs["allowedAccountIds"] in (["111122223333"], '["111122223333"]')
    without = made(usw2=cluster())
    assert "allowedAccountIds" not in named(without, "usw2-aws", "pulumi:providers:aws").inputs


def test_the_outputs_name_the_role_that_writes() -> None:
    built: dict[str, Any] = {}
    build_alone(lambda: built.update(build(fleet(), "gpu-ci", "test", {"default": pulumi.Output.secret("a key")})) and None)
    arn = "arn:aws:iam::111122223333:role/example-ccache-write"
    assert built["clusters"]["usw2"]["buildCaches"] == {BUCKET: arn}


def test_every_policy_accepts_them(created: Recording) -> None:
    found = [verdict for verdict in judge(created, configure(RULES, {"all": "mandatory"}, AS_OF)) if NAME in verdict.urn]
    assert found == []
