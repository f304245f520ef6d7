"""resource-policy-closed: whom the policies of buckets, keys and other stores name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import IAM_ROLE
from policies.rules.record import Resource
from policies.rules.resource_policy_closed import ACLS, DOCUMENTS, FIELDS, FLAGS, PUBLIC_BLOCK, RULE
from tests.day import AS_OF
from tests.policies.cases import Member, StackCase
from tests.policies.harness import UNKNOWN, as_read, config_of, judge_stack, said
from tests.policies.suite import Suite

OWN, FOREIGN = "123456789012", "999999999999"
ROLE = Member(IAM_ROLE, "role", {"permissionsBoundary": f"arn:aws:iam::{OWN}:policy/boundary"})
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
BUCKET_ACL = "aws:s3/bucketAcl:BucketAcl"


def allows(principal: Any, **more: Any) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "s3:GetObject", "Resource": "*", **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def only(key: str, value: Any, operator: str = "StringEquals") -> dict[str, Any]:
    return {"Condition": {operator: {key: value}}}


def opened(who: str, field: str = "policy") -> str:
    return (
        f"{field}: Statement[0] opens it to {who}; name principals of your account, or add a condition on aws:PrincipalAccount "
        f"or aws:SourceVpc; list an account of yours in {config_of('resource-policy-closed', 'accounts')}"
    )


def field_of(token: str) -> str:
    return FIELDS[token.endswith("Template")]


def store(document: str, token: str = BUCKET_POLICY) -> Member:
    return Member(token, "store", {field_of(token): document})


SUITE = Suite(
    RULE,
    passing=(
        *(StackCase((ROLE, store(allows({"AWS": f"arn:aws:iam::{OWN}:root"}), token))) for token in sorted(DOCUMENTS)),
        *(StackCase((Member(token, "bucket", {"acl": "private"}),)) for token in sorted(ACLS)),
        StackCase((Member(PUBLIC_BLOCK, "block", dict.fromkeys(FLAGS, True)),)),
        StackCase((store(allows({"AWS": FOREIGN})),), config={"accounts": [FOREIGN]}),
        StackCase((store(allows("*", Effect="Deny")),)),
        StackCase((store(allows("*", **only("aws:SourceVpc", "vpc-1"))),)),
    ),
    violating=(
        *(
            StackCase((ROLE, store(allows("*"), token)), {opened("everybody", field_of(token)): "store"})
            for token in sorted(DOCUMENTS)
        ),
        StackCase((ROLE, store(allows({"AWS": FOREIGN}))), {opened(FOREIGN): "store"}),
        *(
            StackCase(
                (Member(token, "bucket", {"acl": "public-read"}),),
                {'acl is "public-read": others than the bucket\'s owner may use it; write private': "bucket"},
            )
            for token in sorted(ACLS)
        ),
        StackCase(
            (Member(PUBLIC_BLOCK, "block", dict.fromkeys(FLAGS, True) | {FLAGS[1]: False}),),
            {f"{FLAGS[1]} is false: the bucket can be opened to everybody; write true": "block"},
        ),
    ),
)


@pytest.mark.parametrize(
    ("principal", "more"),
    [
        ({"AWS": "*"}, {}),
        ({"AWS": [OWN, "*"]}, {}),
        ("*", only("aws:SecureTransport", "true", "Bool")),
        ("*", only("aws:PrincipalAccount", FOREIGN)),
        ("*", only("aws:PrincipalAccount", [OWN, FOREIGN])),
        ("*", only("aws:PrincipalAccount", OWN, "StringNotEquals")),
        ("*", only("aws:PrincipalAccount", OWN, "StringEqualsIfExists")),
        ("*", only("aws:PrincipalAccount", OWN, "ForAllValues:StringEquals")),
        ("*", only("aws:PrincipalOrgID", "*", "StringLike")),
        ("*", only("aws:SourceVpc", "vpc-*", "StringLike")),
        ("*", only("aws:SourceIp", "0.0.0.0/0", "IpAddress")),
        ("*", only("aws:SourceArn", "arn:aws:s3:::evil", "ArnLike")),
        ({"CanonicalUser": "79a5"}, {}),
        ({"AWS": "AIDAEXAMPLE"}, {}),
        ({"Federated": "cognito-identity.amazonaws.com"}, {}),
        ({"Service": "cloudfront.amazonaws.com"}, {}),
        ({"AWS": f"arn:aws:sts::{FOREIGN}:assumed-role/x/y"}, {}),
    ],
)
def test_a_stranger_has_several_spellings(principal: Any, more: dict[str, Any]) -> None:
    assert len(judge_stack(RULE, [ROLE, store(allows(principal, **more))]).messages) == 1


def test_all_but_somebody_is_everybody() -> None:
    statement = {"Effect": "Allow", "NotPrincipal": {"AWS": FOREIGN}, "Action": "*", "Resource": "*"}
    assert judge_stack(RULE, [ROLE, store(json.dumps({"Statement": statement}))]).messages == (opened("everybody"),)


@pytest.mark.parametrize(
    ("principal", "more"),
    [
        ({"AWS": OWN}, {}),
        ({"AWS": f"arn:aws:iam::{OWN}:role/node"}, {}),
        ("*", only("aws:PrincipalAccount", OWN)),
        ("*", only("AWS:SourceOwner", OWN)),
        ("*", only("aws:SourceArn", f"arn:aws:sns:us-west-2:{OWN}:alerts", "ArnEquals")),
        ("*", only("aws:PrincipalOrgID", "o-a1b2c3d4e5")),
        ("*", only("aws:SourceIp", ["192.0.2.0/24"], "IpAddress")),
        ({"Service": "budgets.amazonaws.com"}, only("aws:SourceAccount", OWN)),
    ],
)
def test_an_own_principal_has_several_spellings(principal: Any, more: dict[str, Any]) -> None:
    assert judge_stack(RULE, [ROLE, store(allows(principal, **more))]) == said()


def test_an_account_is_known_by_the_arn_of_a_role_and_by_the_limit_of_a_provider() -> None:
    document = store(allows({"AWS": OWN}))
    role = Member(IAM_ROLE, "role", {"arn": f"arn:aws:iam::{OWN}:role/node"})
    limited = Member(IAM_ROLE, "role", {}, provider={"allowedAccountIds": json.dumps([OWN])})
    assert judge_stack(RULE, [role, document]) == judge_stack(RULE, [limited, document]) == said()
    assert judge_stack(RULE, [document]).messages == (opened(OWN),), "nothing shows that it is ours"


def test_a_text_of_a_component_is_judged_once_what_it_names_exists() -> None:
    def judged(above: str) -> Any:
        urn = f"urn:pulumi:staging::gpu-ci::{above}{BUCKET_POLICY}::store"
        return RULE.judge([Resource(BUCKET_POLICY, as_read({"policy": UNKNOWN}), urn, "store")], {}, AS_OF).unknown

    assert judged("") is not None
    assert judged("other:index:Component$") is not None
    assert judged("gpu-ci:index:BuildCache$") is None
