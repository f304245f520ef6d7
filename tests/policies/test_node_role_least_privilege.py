"""node-role-least-privilege: what nodes may have attached, and statements that allow all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import IAM_ROLE
from policies.rules.node_role_least_privilege import ATTACHMENT, IAM_POLICY, OCI_POLICY, ROLE_POLICY, RULE
from tests.policies.harness import judge_stack
from tests.policies.suite import Member, StackCase, Suite

ARN = "arn:aws:iam::aws:policy/"
NO_RIGHTS = "a node needs no such rights; give them to the pod that does"


def trust(service: Any) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def document(action: Any, resource: Any, effect: str = "Allow") -> str:
    return json.dumps({"Statement": [{"Effect": effect, "Action": action, "Resource": resource}]})


NODE = Member(IAM_ROLE, "node", {"assumeRolePolicy": trust("ec2.amazonaws.com")})
POD = Member(IAM_ROLE, "pod", {"assumeRolePolicy": trust(["pods.eks.amazonaws.com"])})
EVERYTHING = "allow group g to manage  all-resources in TENANCY"
ALL = "Statement[0] allows every action on every resource; name the actions and the resources"


def attached(policy: str, role: str) -> Member:
    return Member(ATTACHMENT, "attached", {"policyArn": f"{ARN}{policy}"}, property_depends={"role": (role,)})


def holds(token: str, text: str, message: str = "") -> StackCase:
    return StackCase((Member(token, "one", {"policy": text}),), {message: "one"} if message else {})


SUITE = Suite(
    RULE,
    passing=(
        StackCase((NODE, attached("AmazonEKSWorkerNodePolicy", "node"))),
        StackCase((POD, attached("AmazonS3FullAccess", "pod"))),
        StackCase((NODE, attached("CloudWatchAgentServerPolicy", "node")), config={"allowed": ["CloudWatchAgentServerPolicy"]}),
        holds(ROLE_POLICY, document(["ec2:DescribeImages"], "*")),
        holds(ROLE_POLICY, document("*", "*", "Deny")),
        holds(IAM_POLICY, document("*", "arn:aws:s3:::mine/*")),
        StackCase((Member(OCI_POLICY, "one", {"statements": ["Allow group g to manage all-resources in compartment ci"]}),)),
        StackCase((Member(OCI_POLICY, "one", {"compartmentId": "ocid1.compartment.oc1..a", "statements": [EVERYTHING]}),)),
    ),
    violating=(
        StackCase(
            (NODE, attached("AmazonS3FullAccess", "node")),
            {f'policyArn is "{ARN}AmazonS3FullAccess": {NO_RIGHTS} (Pod Identity)': "attached"},
        ),
        StackCase(
            (Member(IAM_ROLE, "one", {"assumeRolePolicy": trust("ec2.amazonaws.com"), "managedPolicyArns": [f"{ARN}X"]}),),
            {f'managedPolicyArns[0] is "{ARN}X": {NO_RIGHTS}': "one"},
        ),
        StackCase(
            (Member(IAM_ROLE, "one", {"inlinePolicies": [{"policy": document("*", ["*"])}]}),),
            {f"inlinePolicies[0].policy: {ALL}": "one"},
        ),
        holds(ROLE_POLICY, document(["*"], "*"), f"policy: {ALL}"),
        holds(IAM_POLICY, json.dumps({"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}), f"policy: {ALL}"),
        StackCase(
            (Member(OCI_POLICY, "one", {"compartmentId": "ocid1.tenancy.oc1..a", "statements": [EVERYTHING]}),),
            {"statements[0] gives all resources of the tenancy; name the resources and the compartment": "one"},
        ),
    ),
)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"Statement": 3}', '{"Statement": [3]}', "[" * 60000, "x" * 70000])
def test_what_is_no_document_is_survived(text: str) -> None:
    for token in (ROLE_POLICY, IAM_POLICY):
        assert judge_stack(RULE, [Member(token, "one", {"policy": text})]).messages == ()
    assert judge_stack(RULE, [Member(IAM_ROLE, "node", {"assumeRolePolicy": text}), attached("X", "node")]).messages == ()
