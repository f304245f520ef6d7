"""What `pulumi -C bootstrap up` declares: who may take which role, and the bucket."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from bootstrap.config import NAMESPACE
from bootstrap.rights import boundary
from fleet.facts.iam import allows
from fleet.loading import stackfile
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import Recording
from tests.bootstrap.builders import ACCOUNT, FOLDER, OPERATOR, declared, settings, target
from tests.builders import ROOT
from tests.components.recorded import named, of_type

ROLE = "aws:iam/role:Role"
GITHUB = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
PULUMI = f"arn:aws:iam::{ACCOUNT}:oidc-provider/api.pulumi.com/oidc"


def trust(held: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The statements of a role's trust policy."""
    statements: list[dict[str, Any]] = json.loads(named(declared(held), name, ROLE).inputs["assumeRolePolicy"])["Statement"]
    return statements


def attached(recording: Recording, role: str) -> set[str]:
    """The ends of the names of a role's policies."""
    kind = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    names = [resource.name for resource in of_type(recording, kind)]
    return {name.removeprefix(f"{role}-") for name in names if name.startswith(f"{role}-")}


def test_only_deployments_of_the_stack_may_take_its_deploy_role():
    assert trust(settings(), "staging-deployments") == [
        {
            "Effect": "Allow",
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Principal": {"Federated": PULUMI},
            "Condition": {
                "StringEquals": {
                    "api.pulumi.com/oidc:aud": "acme",
                    "api.pulumi.com/oidc:sub": [
                        f"pulumi:deploy:org:acme:project:gpu-ci:stack:staging:operation:{operation}:scope:write"
                        for operation in ("update", "refresh", "destroy")
                    ],
                }
            },
        }
    ]


@pytest.mark.parametrize(
    ("operation", "takes"),
    [
        *((operation, {"deployments", "preview"}) for operation in ("update", "refresh", "destroy")),
        *((operation, {"preview"}) for operation in ("preview", "detect-drift", "remediate-drift", "tomorrow")),
    ],
)
def test_a_run_of_pulumi_deployments_takes_the_role_of_its_operation(operation: str, takes: set[str]):
    """Who may start a preview of prod runs the code of any branch with what the preview's role has."""
    key, principal = "api.pulumi.com/oidc", {"Federated": PULUMI}

    def may(stack: str) -> set[str]:
        subject = f"pulumi:deploy:org:acme:project:gpu-ci:stack:{stack}:operation:{operation}:scope:write"
        claims = {f"{key}:aud": "acme", f"{key}:sub": subject}
        policies = {purpose: {"Statement": trust(settings(), f"staging-{purpose}")} for purpose in ("deployments", "preview")}
        action = "sts:AssumeRoleWithWebIdentity"
        return {purpose for purpose, held in policies.items() if allows([held], action, None, claims, principal)}

    assert may("staging") == takes
    assert may("prod") == may("staging-2") == set()


@pytest.mark.parametrize(("access", "hours"), [({}, 2), ({"sessionHours": 6}, 6)])
def test_a_session_of_the_deploy_role_is_as_long_as_the_stack_says(access: dict[str, Any], hours: int):
    recording = declared(settings(stacks={"staging": access}))
    longest = {
        name: named(recording, f"staging-{name}", ROLE).inputs["maxSessionDuration"] for name in ("deployments", "preview")
    }
    assert longest == {"deployments": hours * 3600, "preview": 7200}


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({}, "repo:acme/fleet:environment:preview-staging"),
        ({"stacks": {"staging": {"previewFrom": {"branch": "main"}}}}, "repo:acme/fleet:ref:refs/heads/main"),
        ({"repositoryIds": {"owner": 12, "repository": 34}}, "repo:acme@12/fleet@34:environment:preview-staging"),
    ],
    ids=["the environment of the workflow", "a branch", "a new repository"],
)
def test_only_the_named_jobs_may_take_the_preview_role(changes, subject):
    held, runs = trust(settings(**changes), "staging-preview")
    assert runs["Principal"] == {"Federated": PULUMI}
    assert held["Principal"] == {"Federated": GITHUB}
    key = "token.actions.githubusercontent.com"
    assert held["Condition"] == {"StringEquals": {f"{key}:aud": "sts.amazonaws.com", f"{key}:sub": subject}}


def test_without_an_organization_jobs_and_operators_deploy():
    given = settings(
        organization=None, stacks={"staging": {"deployFrom": {"environment": "production"}, "operators": [OPERATOR]}}
    )
    jobs, people = trust(given, "staging-deployments")
    subject = jobs["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"]
    assert subject == "repo:acme/fleet:environment:production"
    assert people == {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": [OPERATOR]}}
    assert [each.name for each in of_type(declared(given), "aws:iam/openIdConnectProvider:OpenIdConnectProvider")] == ["github"]


def test_providers_that_the_account_has_already_are_not_created():
    kind = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
    found = {each.name: each.inputs for each in of_type(declared(settings()), kind)}
    assert {name: (held["url"], held["clientIdLists"]) for name, held in found.items()} == {
        "github": ("https://token.actions.githubusercontent.com", ["sts.amazonaws.com"]),
        "pulumi": ("https://api.pulumi.com/oidc", ["acme"]),
    }
    assert of_type(declared(settings(existingProviders=["github", "pulumi"])), kind) == ()


def test_a_preview_gets_the_reading_policy_alone():
    found = declared(settings())
    assert attached(found, "staging-preview") == {"read"}
    assert attached(found, "staging-deployments") == {"read", "regional", "named", "iam"}


def test_the_roles_have_the_names_that_deployments_expect():
    text = (ROOT / "deployments" / "Pulumi.main.yaml").read_text()
    names = {each.inputs["name"] for each in of_type(declared(settings()), ROLE)}
    assert names == {"gpu-ci-staging-preview", "gpu-ci-staging-deployments"}
    assert "role/gpu-ci-staging-deployments" in text


@pytest.mark.parametrize("preview", [True, False])
def test_the_bucket_keeps_versions_and_is_encrypted_and_private(preview):
    found = declared(settings(state={"bucket": "acme-gpu-ci-state"}), preview)
    inputs = {
        each.type.rpartition(":")[2]: each.inputs for each in found.resources if each.type.startswith(("aws:s3", "aws:kms"))
    }
    assert inputs["BucketVersioning"]["versioningConfiguration"] == {"status": "Enabled"}
    (expiry,) = inputs["BucketLifecycleConfiguration"]["rules"]
    assert expiry["noncurrentVersionExpiration"] == {"noncurrentDays": 90}
    assert expiry["expiration"] == {"expiredObjectDeleteMarker": True}, "the current state never expires"
    (rule,) = inputs["BucketServerSideEncryptionConfiguration"]["rules"]
    assert rule["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "aws:kms"
    assert {value for key, value in inputs["BucketPublicAccessBlock"].items() if key != "bucket"} == {True}
    assert inputs["Key"]["enableKeyRotation"] is True
    assert '"aws:SecureTransport": "false"' in inputs["BucketPolicy"]["policy"]
    assert {each.name for each in found.resources if each.protect} == {"state", "state-key"}
    assert attached(found, "staging-preview") == {"read", "state"}
    assert attached(found, "staging-deployments") == {"read", "regional", "named", "iam", "state"}


def test_a_bucket_without_a_key_has_the_encryption_of_s3():
    found = declared(settings(state={"bucket": "acme-gpu-ci-state", "encryptionKey": False}))
    (held,) = of_type(found, "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration")
    assert held.inputs["rules"][0]["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}
    assert of_type(found, "aws:kms/key:Key") == ()


def test_each_stack_has_its_own_state_and_its_own_secrets():
    given = settings(stacks={"staging": {}, "prod": {}}, state={"bucket": "acme-gpu-ci-state"})
    found = declared(given, preview=False)
    for stack, other in (("staging", "prod"), ("prod", "staging")):
        for purpose in ("preview", "deployments"):
            policy = named(found, f"{stack}-state-{purpose}", "aws:iam/policy:Policy").inputs["policy"]
            assert f"/.pulumi/stacks/gpu-ci/{stack}.json*" in policy
            assert other not in policy
    key = "awskms://alias/gpu-ci-state?region=us-west-2&context_stack="
    assert found.outputs["secretsProviders"] == {stack: f"{key}{stack}" for stack in ("staging", "prod")}


def test_each_stack_has_a_boundary_with_the_name_that_its_file_gives():
    found = declared(settings(stacks={"staging": {}, "prod": {}}))
    for stack in ("staging", "prod"):
        policy = named(found, f"{stack}-boundary", "aws:iam/policy:Policy").inputs
        assert f"arn:aws:iam::{ACCOUNT}:policy/{policy['name']}" == target(stack).boundary
        assert json.loads(policy["policy"]) == boundary(target(stack))


def test_only_the_named_account_is_changed():
    (provider,) = of_type(declared(settings()), "pulumi:providers:aws")
    assert json.loads(provider.inputs["allowedAccountIds"]) == [ACCOUNT]


def test_the_checked_in_settings_are_those_of_deployments():
    found = record(FOLDER / "__main__.py", stackfile.load("main", FOLDER))
    names = {each.inputs["name"] for each in of_type(found, ROLE)}
    assert names == {f"gpu-ci-{stack}-{purpose}" for stack in ("staging", "prod") for purpose in ("preview", "deployments")}


# -- wrong settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"account": "12345"}, 'account: an AWS account is 12 quoted digits, for example "111122223333" (got "12345")'),
        ({"region": "Oregon"}, 'region: not an AWS region; write for example us-west-2 (got "Oregon")'),
        (
            {"repository": "https://github.com/acme/fleet"},
            "repository: not a GitHub repository; write owner/name without https://",
        ),
        (
            {"organization": None},
            "stacks.staging: no principal can assume its deploy role; set organization, deployFrom or operators",
        ),
        (
            {"stacks": {"staging": {"previewFrom": {"environment": "a", "branch": "b"}}}},
            "stacks.staging.previewFrom: names no jobs or two kinds of them; write either environment or branch",
        ),
        ({"state": {"bucket": "Acme_State"}}, "state.bucket: a bucket name has 3 to 63 lower case letters, digits and hyphens"),
        ({"stacks": {"homelab": {}}}, "stacks.homelab: no cluster of Pulumi.homelab.yaml is in AWS, so it needs no role"),
        ({"stacks": {"gone": {}}}, "Pulumi.gone.yaml"),
        (
            {"stacks": {"bootstrap": {"operators": [OPERATOR]}}},
            "stacks.bootstrap: the bootstrap tags its own resources with this name, so the stack could delete them; rename it",
        ),
        (
            {"stacks": {"s" * 46: {}}},
            f"stacks.{'s' * 46}: has 46 characters, and the name of its deploy role allows 45; rename the stack",
        ),
        (
            {"account": "111122223333"},
            "stacks.staging: its deploy role creates roles only with the stack's boundary; write gpu-ci:permissionsBoundary: "
            "arn:aws:iam::111122223333:policy/gpu-ci-staging-boundary into Pulumi.staging.yaml",
        ),
        ({"acount": "1"}, "acount"),
    ],
)
def test_wrong_settings_are_one_line_each(changes, line):
    with pytest.raises(pulumi.RunError) as caught:
        declared(settings(**changes))
    assert line in str(caught.value)


def test_a_setting_that_was_encrypted_by_mistake_is_named_and_not_shown():
    with pytest.raises(pulumi.RunError, match="nothing here is a secret") as caught:
        declared(settings(repository="acme/hidden"), secret=frozenset({f"{NAMESPACE}:repository"}))
    assert "acme/hidden" not in str(caught.value)
