"""oidc-trust-scoped: subjects that name a repository and a place, and those that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import IAM_ROLE
from policies.rules.oidc_trust_scoped import RULE
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, config_of, judge, said
from tests.policies.suite import Suite

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
        f'assumeRolePolicy: Statement[0] accepts "{value}": name the owner, the repository and a branch or environment; '
        "write repo:OWNER/NAME:environment:NAME or repo:OWNER/NAME:ref:refs/heads/BRANCH"
    )


SUITE = Suite(
    RULE,
    passing=(
        Case(IAM_ROLE, subject(MAIN)),
        Case(IAM_ROLE, subject([MAIN, "repo:example/gpu-ci:environment:prod"], "StringEquals")),
        Case(IAM_ROLE, subject(MAIN), config={"orgs": ["example"]}),
        Case(IAM_ROLE, subject("repo:example@1234/gpu-ci@5678:environment:prod"), config={"orgs": ["example"]}),
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
            (
                f'assumeRolePolicy: Statement[0] accepts "{MAIN}": the owner is not in acme; correct it, or list it in '
                f"{config_of(RULE.id, 'orgs')}",
            ),
            config={"orgs": ["acme"]},
        ),
        Case(
            IAM_ROLE,
            trusts({"StringEquals": AUDIENCE}),
            (
                f"assumeRolePolicy: Statement[0] has no condition on {ISSUER}:sub: every repository on GitHub can assume the "
                "role; write repo:OWNER/NAME:ref:refs/heads/main",
            ),
        ),
        Case(
            IAM_ROLE,
            trusts({"StringEquals": {f"{ISSUER}:sub": MAIN}}),
            (
                f"assumeRolePolicy: Statement[0] has no condition on {ISSUER}:aud: a token for another service can assume the "
                "role too; write StringEquals sts.amazonaws.com",
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


@pytest.mark.parametrize(
    "place",
    [
        "",
        "?*",
        "r*",
        "ref:*",
        "ref:?*",
        "ref:r*",
        "ref:refs/*",
        "ref:refs/heads/*",
        "environment:*",
        "environment:?",
        "pull_request*",
    ],
)
def test_a_wildcard_in_the_place_of_a_place_is_told(place: str) -> None:
    value = f"repo:example/gpu-ci:{place}"
    assert judge(RULE, IAM_ROLE, subject(value)) == said(wide(value))


@pytest.mark.parametrize("audience", ["*", "sts.amazonaws.co?"])
def test_a_wildcard_in_the_audience_is_told(audience: str) -> None:
    found = judge(RULE, IAM_ROLE, trusts({"StringLike": {f"{ISSUER}:aud": audience, f"{ISSUER}:sub": MAIN}}))
    assert found == said(
        f'assumeRolePolicy: Statement[0] accepts a token for "{audience}": a token for another service can assume the role too; '
        "write StringEquals sts.amazonaws.com"
    )


def test_an_enterprise_may_have_an_issuer_of_its_own() -> None:
    issuer = f"{ISSUER}/acme"
    claims = {f"{issuer}:aud": "sts.amazonaws.com", f"{issuer}:sub": MAIN}
    assert judge(RULE, IAM_ROLE, trusts({"StringEquals": claims}, Federated=f"{PROVIDER}/acme")) == CLEAN
    stranger = {f"x{key}": value for key, value in claims.items()}
    assert len(judge(RULE, IAM_ROLE, trusts({"StringEquals": stranger}, Federated=f"{PROVIDER}/acme")).messages) == 2


@pytest.mark.parametrize("operator", ["StringEqualsIgnoreCase", "ForAnyValue:StringLike"])
def test_every_operator_that_holds_the_subject_to_a_text_is_a_condition(operator: str) -> None:
    assert judge(RULE, IAM_ROLE, trusts({operator: AUDIENCE | {f"{ISSUER}:sub": MAIN}})) == CLEAN


@pytest.mark.parametrize("operator", ["ForAllValues:StringLike", "StringLikeIfExists", "StringNotEquals", "Null"])
def test_an_operator_that_lets_others_in_is_no_condition(operator: str) -> None:
    props = trusts({"StringEquals": AUDIENCE, operator: {f"{ISSUER}:sub": MAIN}})
    assert "no condition" in judge(RULE, IAM_ROLE, props).messages[0]


@pytest.mark.parametrize("text", ["", "{", "[[", '{"Statement": [[]]}', "[" * 60000])
def test_what_is_no_document_is_survived(text: str) -> None:
    assert judge(RULE, IAM_ROLE, {"assumeRolePolicy": text}) == CLEAN
