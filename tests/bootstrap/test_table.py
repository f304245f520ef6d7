"""The table of IAM actions: it has every type, every action exists, and the policies of the roles are its union."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from typing import Any

import botocore.session
import pytest

from bootstrap import rights
from bootstrap.rights import ATTACHED, MOST, PASSED_TO, Target, boundary, changes, needs, reading, scope
from fleet.facts.errors import FleetError
from fleet.facts.tables import rows
from tests.bootstrap.builders import ACCOUNT, target
from tests.builders import ROOT
from tests.components.recorded import STACKS, of_type, recorded
from tests.engine import eks_cluster

CHILDREN = {
    eks_cluster.TYPE: (eks_cluster.ROLE, "aws:iam/rolePolicyAttachment:RolePolicyAttachment", eks_cluster.CONTROL_PLANE),
}
"""What a remote component creates in AWS for us (pulumi/pulumi-eks@7bf0c1b1, nodejs/eks/cluster/cluster.ts, servicerole.ts)."""
SERVICES = {"elasticfilesystem": "efs", "servicequotas": "service-quotas"}
"""The name that botocore has for a service, where IAM has another."""
NO_OPERATION = {
    "budgets:ModifyBudget": "CreateBudget",
    "budgets:ViewBudget": "DescribeBudget",
    "iam:PassRole": "CreateRole",
    "s3:DeleteObjectVersion": "DeleteObject",
    "s3:GetAccelerateConfiguration": "GetBucketAccelerateConfiguration",
    "s3:GetBucketCORS": "GetBucketCors",
    "s3:GetBucketObjectLockConfiguration": "GetObjectLockConfiguration",
    "s3:GetBucketPublicAccessBlock": "GetPublicAccessBlock",
    "s3:GetEncryptionConfiguration": "GetBucketEncryption",
    "s3:GetLifecycleConfiguration": "GetBucketLifecycleConfiguration",
    "s3:GetReplicationConfiguration": "GetBucketReplication",
    "s3:ListBucket": "ListObjectsV2",
    "s3:ListBucketVersions": "ListObjectVersions",
    "s3:PutBucketPublicAccessBlock": "PutPublicAccessBlock",
    "s3:PutEncryptionConfiguration": "PutBucketEncryption",
    "s3:PutLifecycleConfiguration": "PutBucketLifecycleConfiguration",
    "s3:ListTagsForResource": "GetBucketTagging",
    "s3:TagResource": "PutBucketTagging",
    "s3:UntagResource": "DeleteBucketTagging",
}
"""Actions that no operation is called like, with an operation that asks for them (AWS, Service Authorization Reference)."""


def registered() -> set[str]:
    """Every AWS type of every stack and example, with the children of remote components."""
    found = {resource.type for stack in STACKS for resource in recorded(stack).resources}
    assert CHILDREN.keys() <= found
    children = {child for parent in CHILDREN for child in CHILDREN[parent]}
    return {name for name in found if name.startswith("aws:")} | children


def constructed() -> set[str]:
    """Every AWS type that a component constructs, also where no stack uses it."""
    text = "".join(path.read_text() for path in (ROOT / "components").rglob("*.py"))
    assert "builder = aws.imagebuilder" in text or "imagebuilder as builder" in text
    found = re.findall(r"\b(aws\.(\w+)|builder)\.([A-Z]\w+)\(", text)
    names = {(module or "imagebuilder", name) for _, module, name in found if not name.endswith("Args")}
    return {f"aws:{module}/{name[0].lower()}{name[1:]}:{name}" for module, name in names}


def test_every_type_has_rows_and_every_row_a_type():
    wanted = registered() | constructed()
    assert len(wanted) > 40
    assert {need["type"] for need in needs()} == wanted


def test_every_type_can_be_read_and_all_but_one_deleted():
    verbs = {name: {need["verb"] for need in needs() if need["type"] == name} for name in {need["type"] for need in needs()}}
    assert set().union(*verbs.values()) == {"create", "read", "update", "delete"}
    assert {name for name, held in verbs.items() if not {"create", "read", "delete"} <= held} == {
        "aws:servicequotas/serviceQuota:ServiceQuota"  # AWS takes no quota back
    }


def test_every_row_has_a_source_and_a_date_and_is_there_once():
    held = rows("iam_actions.csv")
    for row in held:
        assert re.match(
            r"(terraform-provider-aws@\w{8} internal/service/|CloudFormation schema AWS::|AWS managed policy |API reference of )",
            row["source"],
        )
        assert date.fromisoformat(row["date"]) <= date(2026, 11, 26)
    keys = [(row["type"], row["verb"], row["action"]) for row in held]
    assert len(keys) == len(set(keys))


def operations() -> dict[str, set[str]]:
    session = botocore.session.Session()
    services = {need["action"].partition(":")[0] for need in needs()}
    return {name: set(session.get_service_model(SERVICES.get(name, name)).operation_names) for name in services}


def test_every_action_is_an_operation_of_aws_or_a_documented_exception():
    known = operations()
    actions = {need["action"] for need in needs()}
    wrong = [action for action in sorted(actions) if action.partition(":")[2] not in known[action.partition(":")[0]]]
    assert set(wrong) == NO_OPERATION.keys() & actions == NO_OPERATION.keys()
    assert [name for name, operation in NO_OPERATION.items() if operation not in known[name.partition(":")[0]]] == []


def test_what_a_preview_does_only_reads():
    actions = [need["action"] for need in needs() if need["verb"] == "read"]
    assert [action for action in actions if not re.match(r"\w+:(Describe|Get|List|View)", action)] == []


# -- the union -----------------------------------------------------------------------------------------------------------


def allowed(*documents: dict[str, Any]) -> list[str]:
    return [
        action
        for document in documents
        for statement in document["Statement"]
        if statement["Effect"] == "Allow"
        for action in statement["Action"]
    ]


def union() -> set[str]:
    return {need["action"] for need in needs()}


RULES = {
    *(f"ec2:{verb}SecurityGroup{way}" for verb in ("Authorize", "Revoke") for way in ("Egress", "Ingress")),
    "ec2:ModifySecurityGroupRules",
}
TWICE = {"ec2:CreateTags", "elasticfilesystem:TagResource", "kms:TagResource"} | RULES
"""Actions with a statement for new resources and one for the stack's own. Those of rules have one for EKS' groups, too."""


def with_everything(stack: str = "staging") -> Target:
    """A stack with build caches, GitHub's OIDC provider and a registry."""
    registry = f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/gpu-ci/*"
    return replace(target(stack), buckets=("acme-build-cache",), repositories=(registry,), oidc=True)


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_the_deploy_role_may_do_what_the_table_says_and_nothing_else(stack):
    held = allowed(reading(), *changes(with_everything(stack)).values())
    assert set(held) == union()
    assert {action for action in held if held.count(action) > 1} == TWICE, "the wider limits of two statements count"
    assert [action for action in held if "*" in action] == []


def test_a_stack_has_no_right_for_what_it_has_not():
    held = set(allowed(reading(), *changes(target()).values()))
    assert {scope(action) for action in union() - held} == {"oidc", "buckets", "repositories", "key tags", "keys"}


def test_the_preview_role_may_do_what_reading_needs_and_nothing_else():
    assert set(allowed(reading())) == {need["action"] for need in needs() if need["verb"] == "read"}


def test_a_row_more_is_an_action_more(monkeypatch):
    row = {"type": "aws:new/thing:Thing", "verb": "create", "action": "eks:CreateThing"}
    held = needs()
    monkeypatch.setattr(rights, "needs", lambda: (*held, row))
    assert "eks:CreateThing" in allowed(changes(target())["named"])


# -- limits --------------------------------------------------------------------------------------------------------------


def everywhere() -> Target:
    """A stack with more clusters than any example: four in AWS, in four regions, two with build caches."""
    names = ("use1", "use2", "usw1", "usw2")
    return replace(
        target(),
        regions=("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
        clusters=tuple(f"gpu-ci-staging-{name}" for name in names),
        names=tuple(f"{name}-*" for name in (*names, "acme-build-cache-west", "acme-build-cache-east")),
        buckets=("acme-build-cache-west", "acme-build-cache-east"),
        repositories=tuple(f"arn:aws:ecr:us-{side}-1:{ACCOUNT}:repository/gpu-ci/*" for side in ("east", "west")),
        image_regions=("eu-west-1", "eu-central-1"),
        oidc=True,
    )


@pytest.mark.parametrize("where", [target(), target("prod"), everywhere()], ids=["staging", "prod", "four clusters"])
def test_every_policy_is_small_enough_for_iam(where):
    """IAM counts a managed policy without white space: 6,144 characters, and ten policies on a role (IAM and STS quotas)."""
    state = rights.state("arn:aws:s3:::" + "b" * 63, "a" * 80, "us-west-2", "s" * 40, write=True)
    documents = [reading(), *changes(where).values(), state]
    assert len(documents) <= 10
    assert max(len(json.dumps(document, separators=(",", ":"))) for document in [*documents, boundary(where)]) <= MOST == 6144


def test_a_stack_whose_policy_would_be_too_long_is_one_line():
    many = replace(target(), clusters=tuple(f"gpu-ci-staging-{number}" for number in range(60)))
    with pytest.raises(
        FleetError, match=r"stacks.staging: the policy gpu-ci-staging-named has \d+ characters, and IAM allows 6144"
    ):
        changes(many)


def statement_of(action: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [
        statement
        for document in changes(with_everything()).values()
        for statement in document["Statement"]
        if action in statement["Action"]
    ]
    return found


def test_log_groups_are_changed_only_below_a_cluster_of_the_stack():
    assert statement_of("logs:DeleteLogGroup")["Resource"] == [
        f"arn:aws:logs:*:{ACCOUNT}:log-group:/aws/eks/gpu-ci-staging-usw2/cluster*"
    ]


def test_a_role_is_passed_only_if_it_is_the_stacks_and_only_to_services_that_take_one():
    held = statement_of("iam:PassRole")
    assert held["Resource"][0] == f"arn:aws:iam::{ACCOUNT}:role/usw2-*"
    assert set(held["Condition"]["StringEquals"]["iam:PassedToService"]) == {f"{name}.amazonaws.com" for name in PASSED_TO}


def test_every_service_that_a_role_of_the_fleet_trusts_may_be_given_one():
    documents = [
        json.loads(resource.inputs["assumeRolePolicy"])
        for stack in STACKS
        for resource in of_type(recorded(stack), "aws:iam/role:Role")
    ]
    trusted = {statement["Principal"].get("Service") for document in documents for statement in document["Statement"]} - {None}
    assert trusted
    assert trusted <= {f"{name}.amazonaws.com" for name in PASSED_TO}


def test_only_policies_that_the_fleet_attaches_may_be_attached():
    attached = {
        resource.inputs["policyArn"].removeprefix("arn:aws:iam::aws:policy/")
        for stack in STACKS
        for resource in of_type(recorded(stack), "aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    }
    assert {*attached, "AmazonEKSClusterPolicy"} == set(ATTACHED)
    assert statement_of("iam:AttachRolePolicy")["Condition"]["ArnEquals"]["iam:PolicyARN"] == [
        f"arn:aws:iam::aws:policy/{name}" for name in ATTACHED
    ]


def test_every_name_that_the_fleet_gives_in_iam_and_s3_is_in_reach():
    config = recorded("staging")
    patterns = [name.removesuffix("*") for name in target().names]
    for kind in ("aws:iam/role:Role", "aws:budgets/budget:Budget"):
        assert all(any(each.name.startswith(start) for start in patterns) for each in of_type(config, kind))


@pytest.mark.parametrize(
    "action", ["ec2:DeleteVpc", "ec2:DeleteSubnet", "elasticfilesystem:DeleteFileSystem", "kms:ScheduleKeyDeletion"]
)
def test_what_has_no_name_is_deleted_only_with_the_stacks_tag(action):
    assert statement_of(action)["Condition"]["StringEquals"] == {
        "aws:RequestedRegion": ["us-west-2"],
        "aws:ResourceTag/gpu-ci/stack": "staging",
    }


def test_every_change_of_an_oidc_provider_is_for_githubs():
    actions = {need["action"] for need in needs() if "OpenIDConnectProvider" in need["action"] and need["verb"] != "read"}
    assert "iam:UpdateOpenIDConnectProviderThumbprint" in actions
    for action in actions:
        assert statement_of(action)["Resource"].endswith("oidc-provider/token.actions.githubusercontent.com")


def test_every_change_is_limited_to_names_a_region_or_a_service():
    for document in changes(with_everything()).values():
        for held in document["Statement"]:
            where = held.get("Condition", {}).get("StringEquals", {})
            assert held["Resource"] != "*" or "aws:RequestedRegion" in where or held["Effect"] == "Deny", held
