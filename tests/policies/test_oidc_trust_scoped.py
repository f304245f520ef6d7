"""oidc-trust-scoped: subjects that name a repository and a place, and those that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import IAM_ROLE
from policies.rules.oidc_trust_scoped import RULE
from tests.policies.harness import CLEAN, judge
from tests.policies.suite import Case, Suite

ISSUER = "token.actions.githubusercontent.com"
PROVIDER = f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"
AUDIENCE = {f"{ISSUER}:aud": "sts.amazonaws.com"}
MAIN = "repo:example/gpu-ci:ref:refs/heads/main"


def trusts(conditions: dict[str, Any], **principal: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": principal or {"Federated": PROVIDER},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": conditions,
    }
    return {"assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": [statement]})}


def subject(value: Any, operator: str = "StringLike") -> dict[str, Any]:
    return trusts({"StringEquals": AUDIENCE} | {operator: AUDIENCE | {f"{ISSUER}:sub": value}})


def wide(value: str) -> str:
    return (
        f'assumeRolePolicy: Statement[0] takes "{value}": owner, repository and branch or environment are to be named; '
        "write repo:OWNER/NAME:environment:NAME or repo:OWNER/NAME:ref:refs/heads/BRANCH"
    )


SUITE = Suite(
    RULE,
    passing=(
        Case(IAM_ROLE, subject(MAIN)),
        Case(IAM_ROLE, subject([MAIN, "repo:example/gpu-ci:environment:prod"], "StringEquals")),
        Case(IAM_ROLE, subject(MAIN), config={"orgs": ["example"]}),
        Case(IAM_ROLE, subject("repo:example/gpu-ci:ref:refs/heads/release/*")),
        Case(IAM_ROLE, trusts({}, Service="ec2.amazonaws.com")),
    ),
    violating=(
        Case(IAM_ROLE, subject("repo:*"), (wide("repo:*"),)),
        Case(IAM_ROLE, subject("repo:example/*:ref:refs/heads/main"), (wide("repo:example/*:ref:refs/heads/main"),)),
        Case(IAM_ROLE, subject("repo:example/gpu-ci:*"), (wide("repo:example/gpu-ci:*"),)),
        Case(IAM_ROLE, subject([MAIN, "repo:example/gpu-ci"]), (wide("repo:example/gpu-ci"),)),
        Case(
            IAM_ROLE,
            subject(MAIN),
            (f'assumeRolePolicy: Statement[0] takes "{MAIN}": the owner is none of acme; correct it, or add the owner to orgs',),
            config={"orgs": ["acme"]},
        ),
        Case(
            IAM_ROLE,
            trusts({"StringEquals": AUDIENCE}),
            (
                f"assumeRolePolicy: Statement[0] has no condition on {ISSUER}:sub: every repository on GitHub opens the role; "
                "write repo:OWNER/NAME:ref:refs/heads/main",
            ),
        ),
        Case(
            IAM_ROLE,
            trusts({"StringEquals": {f"{ISSUER}:sub": MAIN}}),
            (
                f"assumeRolePolicy: Statement[0] has no condition on {ISSUER}:aud: a token for another service opens the role too; "
                "write StringEquals sts.amazonaws.com",
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    "value",
    [
        "repo:example/gpu-ci:pull_request",
        "repo:example@1234/gpu-ci@5678:environment:prod",
        "repo:example/gpu-ci:ref:refs/tags/v*",
        "repo:example/gpu-ci:job_workflow_ref:example/ci/.github/workflows/up.yml@refs/heads/main",
    ],
)
def test_every_place_that_a_subject_can_name_counts(value: str) -> None:
    assert judge(RULE, IAM_ROLE, subject(value)) == CLEAN


@pytest.mark.parametrize("operator", ["StringLikeIfExists", "StringNotEquals", "Null"])
def test_an_operator_that_lets_others_in_is_no_condition(operator: str) -> None:
    props = trusts({"StringEquals": AUDIENCE, operator: {f"{ISSUER}:sub": MAIN}})
    assert "no condition" in judge(RULE, IAM_ROLE, props).messages[0]


@pytest.mark.parametrize("text", ["", "{", "[[", '{"Statement": [[]]}', "[" * 60000])
def test_what_is_no_document_is_survived(text: str) -> None:
    assert judge(RULE, IAM_ROLE, {"assumeRolePolicy": text}) == CLEAN
