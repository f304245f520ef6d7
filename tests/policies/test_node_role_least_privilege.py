"""node-role-least-privilege: what nodes may have attached, and statements that allow all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import EKS_NODE_GROUP, EXISTING_CLUSTER, IAM_ROLE, LAUNCH_TEMPLATE
from policies.rules.node_role_least_privilege import (
    ATTACHMENTS,
    HOLDERS,
    IAM_POLICY,
    INSTANCE_PROFILE,
    OCI_POLICY,
    ROLE_POLICY,
    RULE,
)
from tests.policies.cases import Member, StackCase
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack
from tests.policies.suite import Suite

ARN = "arn:aws:iam::aws:policy/"
POD_IDENTITY = "grant them to the pod that needs them (Pod Identity)"
NO_RIGHTS = f"a node does not need these permissions; {POD_IDENTITY}"
ATTACHMENT, SEVERAL = sorted(ATTACHMENTS, reverse=True)


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


def several(policy: str, *roles: str) -> Member:
    return Member(SEVERAL, "attached", {"policyArn": f"{ARN}{policy}"}, property_depends={"roles": roles})


def inline(role: str, action: Any = "s3:GetObject", resource: str = "*") -> Member:
    return Member(ROLE_POLICY, "inline", {"policy": document(action, resource)}, property_depends={"role": (role,)})


IMPORT = ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"]
REPOSITORIES = "arn:aws:ecr:us-west-2:123456789012:repository/"
NEEDLESS = {f"policy adds permissions to a node's role, which needs no others; {POD_IDENTITY}": "inline"}


def holds(token: str, text: str, message: str = "") -> StackCase:
    return StackCase((Member(token, "one", {"policy": text}),), {message: "one"} if message else {})


PROFILE = Member(INSTANCE_PROFILE, "profile", {"path": "/"}, property_depends={"role": ("node",)})
FOREIGN = "arn:aws:iam::123456789012:role/admin"


def held(token: str, value: Any = None, source: str = "") -> Member:
    field, _ = HOLDERS[token]
    props = {"clusterName": "usw2"} | ({field: value} if value is not None else {})
    return Member(token, "holder", props, property_depends={field: (source,)} if source else {})


def other_role(token: str) -> str:
    return f'{HOLDERS[token][0]} is "{FOREIGN}": nothing in the stack shows the rights of this role; take one that it declares'


SUITE = Suite(
    RULE,
    passing=(
        *(StackCase((NODE, PROFILE, held(token))) for token in HOLDERS),
        StackCase((NODE, attached("AmazonEKSWorkerNodePolicy", "node"))),
        StackCase((POD, attached("AmazonS3FullAccess", "pod"))),
        StackCase((NODE, attached("CloudWatchAgentServerPolicy", "node")), config={"allowed": ["CloudWatchAgentServerPolicy"]}),
        StackCase((NODE, POD, several("AmazonEKS_CNI_Policy", "node", "pod"))),
        StackCase((NODE, POD, inline("pod"))),
        StackCase((NODE, inline("node", IMPORT, f"{REPOSITORIES}gpu-ci/quay.io/*"))),
        StackCase(
            (Member(IAM_ROLE, "pod", {"assumeRolePolicy": trust("pods.eks.amazonaws.com"), "managedPolicyArns": [f"{ARN}X"]}),)
        ),
        holds(ROLE_POLICY, document(["ec2:DescribeImages"], "*")),
        holds(ROLE_POLICY, document("*", "*", "Deny")),
        holds(IAM_POLICY, document("*", "arn:aws:s3:::mine/*")),
        StackCase((Member(OCI_POLICY, "one", {"statements": ["Allow group g to manage all-resources in compartment ci"]}),)),
        StackCase((Member(OCI_POLICY, "one", {"compartmentId": "ocid1.compartment.oc1..a", "statements": [EVERYTHING]}),)),
    ),
    violating=(
        *(StackCase((NODE, PROFILE, held(token, FOREIGN)), {other_role(token): "holder"}) for token in HOLDERS),
        StackCase(
            (NODE, attached("AmazonS3FullAccess", "node")),
            {f'policyArn is "{ARN}AmazonS3FullAccess": {NO_RIGHTS}': "attached"},
        ),
        StackCase((NODE, POD, several("X", "pod", "node")), {f'policyArn is "{ARN}X": {NO_RIGHTS}': "attached"}),
        StackCase((NODE, inline("node")), NEEDLESS),
        StackCase((NODE, inline("node", IMPORT, f"{REPOSITORIES}*")), NEEDLESS),
        StackCase((NODE, inline("node", [*IMPORT, "ecr:PutImage"], f"{REPOSITORIES}gpu-ci/*")), NEEDLESS),
        StackCase(
            (
                Member(
                    IAM_ROLE,
                    "one",
                    {
                        "assumeRolePolicy": trust("ec2.amazonaws.com.cn"),
                        "inlinePolicies": [{"policy": document("s3:GetObject", "*")}],
                    },
                ),
            ),
            {f"inlinePolicies[0] adds permissions to a node's role, which needs no others; {POD_IDENTITY}": "one"},
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


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ({"Action": "*:*", "Resource": "*"}, True),
        ({"Action": "s3:**", "Resource": "*"}, False),
        ({"Action": "*", "Resource": "arn:aws:*"}, True),
        ({"Action": "*", "Resource": "arn:*:*:*:*:*"}, True),
        ({"Action": "*", "Resource": "arn:aws:s3:::*"}, False),
        ({"NotAction": "iam:*", "Resource": "*"}, True),
        ({"Action": "*", "NotResource": "arn:aws:s3:::mine"}, True),
        ({"NotAction": "iam:*", "Resource": "arn:aws:s3:::mine"}, False),
        ({"Action": "s3:*", "Resource": "*"}, False),
    ],
)
def test_everything_has_several_spellings(statement: dict[str, Any], found: bool) -> None:
    text = json.dumps({"Statement": [{"Effect": "Allow", **statement}]})
    assert judge_stack(RULE, [Member(IAM_POLICY, "one", {"policy": text})]).messages == ((f"policy: {ALL}",) if found else ())


def test_a_policy_of_the_account_does_not_pass_by_the_name_of_one_of_aws() -> None:
    own = Member(
        ATTACHMENT,
        "attached",
        {"policyArn": "arn:aws:iam::123456789012:policy/AmazonEKSWorkerNodePolicy"},
        property_depends={"role": ("node",)},
    )
    assert len(judge_stack(RULE, [NODE, own]).messages) == 1


def test_a_new_role_is_the_stacks_where_the_value_comes_from_it() -> None:
    for token, (_, kind) in HOLDERS.items():
        source = "node" if kind == IAM_ROLE else "profile"
        assert judge_stack(RULE, [NODE, PROFILE, held(token, UNKNOWN, source)]) == CLEAN
        assert judge_stack(RULE, [NODE, PROFILE, held(token, FOREIGN, source)]).messages == (other_role(token),)
        assert judge_stack(RULE, [NODE, PROFILE, held(token, UNKNOWN)]).unknown == HOLDERS[token][0]


def test_a_template_names_its_profile_by_name_or_arn() -> None:
    for name in ("arn", "name"):
        template = held(LAUNCH_TEMPLATE, {name: FOREIGN})
        assert judge_stack(RULE, [NODE, PROFILE, template]).messages == (other_role(LAUNCH_TEMPLATE),)
    known = Member(INSTANCE_PROFILE, "profile", {"name": "nodes"}, property_depends={"role": ("node",)})
    assert judge_stack(RULE, [NODE, known, held(LAUNCH_TEMPLATE, {"name": "nodes"}, "profile")]) == CLEAN


def test_a_cluster_that_exists_has_a_role_for_nodes() -> None:
    existing = Member(EXISTING_CLUSTER, "existing", {"clusterName": "usw2", "provider": "oke"})
    assert judge_stack(RULE, [existing, held(EKS_NODE_GROUP, FOREIGN)]) == CLEAN


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"Statement": 3}', '{"Statement": [3]}', "[" * 60000, "x" * 70000])
def test_what_is_no_document_is_survived(text: str) -> None:
    for token in (ROLE_POLICY, IAM_POLICY):
        assert judge_stack(RULE, [Member(token, "one", {"policy": text})]).messages == ()
    assert judge_stack(RULE, [Member(IAM_ROLE, "node", {"assumeRolePolicy": text}), attached("X", "node")]).messages == ()
