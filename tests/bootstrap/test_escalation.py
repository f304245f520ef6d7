"""What the deploy role of a stack cannot do, and what keeps it so. Each denial has a twin that is allowed.

The policies are evaluated as IAM evaluates them inside one account (`fleet.facts.iam.allows`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from bootstrap import rights
from bootstrap.rights import DENIED, role_actions
from fleet.facts.iam import allows
from fleet.facts.tables import rows
from tests.bootstrap.builders import ACCOUNT, target
from tests.bootstrap.test_table import RULES
from tests.components.recorded import STACKS, of_type, recorded

# What they give is only read here.
boundary, changes, reading = cache(rights.boundary), cache(rights.changes), cache(rights.reading)
WHERE = {"aws:RequestedRegion": "us-west-2"}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/usw2-node-role-1234567"
FOREIGN = f"arn:aws:ec2:us-west-2:{ACCOUNT}:instance/i-0123456789abcdef0"
GITHUB = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
BUCKET, KEY = "arn:aws:s3:::acme-gpu-ci-state", f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"
TAG = "gpu-ci/stack"
BOUND = {"iam:PermissionsBoundary": target().boundary}
OTHER = {"iam:PermissionsBoundary": target("prod").boundary}
ADMIN = {"iam:PolicyARN": "arn:aws:iam::aws:policy/AdministratorAccess"}
NODE = {"iam:PolicyARN": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}


def may(action: str, resource: str, context: dict[str, str] | None = None, of: rights.Target | None = None) -> bool:
    """Whether the deploy role of a stack, without state, may do something."""
    return allows([reading(), *changes(of or target()).values()], action, resource, WHERE | (context or {}))


# -- roles ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        *("CreateRole", "PutRolePolicy", "DeleteRolePolicy", "UpdateAssumeRolePolicy", "UpdateRole", "UpdateRoleDescription"),
        *("DeleteRole", "PutRolePermissionsBoundary"),
    ],
)
def test_a_role_is_changed_only_with_the_boundary_of_the_stack(action):
    assert may(f"iam:{action}", ROLE, BOUND)
    assert not may(f"iam:{action}", ROLE), "a role without a boundary"
    assert not may(f"iam:{action}", ROLE, OTHER), "the boundary of another stack"
    assert not may(f"iam:{action}", ROLE.replace("usw2", "other"), BOUND), "a role of another name"


@pytest.mark.parametrize("action", ["iam:AttachRolePolicy", "iam:DetachRolePolicy"])
def test_a_policy_is_attached_only_to_a_role_with_the_boundary_and_only_if_the_fleet_attaches_it(action):
    assert may(action, ROLE, BOUND | NODE)
    assert not may(action, ROLE, NODE)
    assert not may(action, ROLE, BOUND | ADMIN)


def test_nobody_takes_the_boundary_off():
    assert not may("iam:DeleteRolePermissionsBoundary", ROLE, BOUND)
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    documents = [everything, *changes(target()).values()]
    assert allows(documents, "iam:PutRolePolicy", ROLE, {})
    assert not allows(documents, "iam:DeleteRolePermissionsBoundary", ROLE, {}), "even with more rights"


@pytest.mark.parametrize(
    "action",
    ["CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicy", "PutRolePolicy", "UpdateAssumeRolePolicy", "PassRole"],
)
def test_the_roles_and_policies_that_deploy_are_out_of_their_own_reach(action):
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    documents = [everything, *changes(target()).values()]
    for name in (target().boundary, target("prod").boundary, f"arn:aws:iam::{ACCOUNT}:role/gpu-ci-staging-deployments"):
        assert not allows(documents, f"iam:{action}", name, BOUND)
    assert allows(documents, f"iam:{action}", ROLE, BOUND)


# -- the boundary --------------------------------------------------------------------------------------------------------


def inline() -> set[str]:
    """The actions of every inline policy that a stack gives a role."""
    kind = "aws:iam/rolePolicy:RolePolicy"
    policies = [json.loads(each.inputs["policy"]) for stack in STACKS for each in of_type(recorded(stack), kind)]
    return {action for policy in policies for statement in policy["Statement"] for action in statement["Action"]}


def test_the_boundary_knows_every_policy_that_the_fleet_gives_a_role():
    table = rows("iam_role_policies.csv")
    assert {row["action"] for row in table if row["policy"].endswith("(inline)")} == inline()


def test_a_role_of_the_fleet_can_do_what_its_policies_say_but_for_iam():
    where = replace(target(), buckets=("cache",), repositories=(f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/gpu-ci/*",))
    resources = {
        "ssm": f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/AmazonCloudWatch-linux",
        "s3": "arn:aws:s3:::cache/object",
        "ecr": f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/gpu-ci/quay.io/x",
    }
    context = {
        "aws:CalledVia": "imagebuilder.amazonaws.com",
        "kms:ViaService": "ecr.us-west-2.amazonaws.com",
        f"aws:ResourceTag/{TAG}": "staging",
    }
    refused = {
        action
        for action in role_actions()
        if not allows([boundary(where)], action, resources.get(action.partition(":")[0], "*"), WHERE | context)
    }
    assert refused == {"iam:CreateServiceLinkedRole"}


@pytest.mark.parametrize(
    "action",
    [
        *("iam:CreateRole", "iam:CreateUser", "iam:PassRole", "iam:PutRolePermissionsBoundary", "sts:AssumeRole"),
        *("ssm:SendCommand", "ssm:StartSession", "lambda:CreateFunction", "ec2:RunInstances", "secretsmanager:GetSecretValue"),
        *("organizations:LeaveOrganization", "account:CloseAccount", "kms:PutKeyPolicy", "s3:PutBucketPolicy"),
    ],
)
def test_with_every_policy_of_aws_a_role_of_the_fleet_does_not_become_an_administrator(action):
    assert not allows([boundary(target())], action, "*", WHERE)


def test_what_is_denied_is_denied_also_where_a_resource_allows_it():
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    assert {"iam:*", "sts:AssumeRole*"} <= set(DENIED)
    assert not allows([everything, boundary(target())], "sts:AssumeRole", ROLE, WHERE)
    assert allows([everything, boundary(target())], "sts:GetCallerIdentity", ROLE, WHERE)


def test_a_role_of_the_fleet_does_not_tag_what_exists_as_the_stacks():
    held = [boundary(target())]
    for action, key in (("ec2:CreateTags", "ec2"), ("elasticfilesystem:TagResource", "elasticfilesystem")):
        assert not allows(held, action, FOREIGN, WHERE | {"aws:TagKeys": TAG})
        assert allows(held, action, FOREIGN, WHERE | {"aws:TagKeys": TAG, f"{key}:CreateAction": "CreateVolume"})
        assert allows(held, action, FOREIGN, WHERE | {"aws:TagKeys": "kubernetes.io/created-for/pvc/name"})


def test_a_role_of_the_fleet_reads_no_parameter_and_no_object_of_others():
    held = [boundary(replace(target(), buckets=("cache",)))]
    assert allows(held, "s3:GetObject", "arn:aws:s3:::cache/object", WHERE)
    assert not allows(held, "s3:GetObject", f"{BUCKET}/.pulumi/stacks/gpu-ci/prod.json", WHERE)
    assert not allows(held, "ssm:GetParameter", f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/database/password", WHERE)
    assert not allows(held, "ec2:DeleteVolume", "*", {"aws:RequestedRegion": "us-east-1"}), "another region"


# -- resources of others -------------------------------------------------------------------------------------------------


def test_only_a_stack_that_creates_the_oidc_provider_changes_it():
    creator = replace(target(), oidc=True)
    for action in ("CreateOpenIDConnectProvider", "DeleteOpenIDConnectProvider", "UpdateOpenIDConnectProviderThumbprint"):
        assert may(f"iam:{action}", GITHUB, of=creator)
        assert not may(f"iam:{action}", GITHUB)
    assert may("iam:GetOpenIDConnectProvider", GITHUB)
    assert not may("iam:DeleteOpenIDConnectProvider", GITHUB.replace("token.actions.githubusercontent.com", "x"), of=creator)


@pytest.mark.parametrize(
    ("action", "created"),
    [
        ("ec2:CreateTags", {"ec2:CreateAction": "CreateVpc"}),
        ("elasticfilesystem:TagResource", {"elasticfilesystem:CreateAction": "CreateFileSystem"}),
    ],
)
def test_only_a_new_resource_gets_the_stacks_tag(action, created):
    own, mine, others = (
        {f"aws:RequestTag/{TAG}": "staging"},
        {f"aws:ResourceTag/{TAG}": "staging"},
        {f"aws:ResourceTag/{TAG}": "prod"},
    )
    assert may(action, FOREIGN, created | own)
    assert not may(action, FOREIGN, own), "a resource without a tag, which the stack could then delete"
    assert not may(action, FOREIGN, own | others)
    assert not may(action, FOREIGN, created | {f"aws:RequestTag/{TAG}": "prod"}), "a resource that another stack then deletes"
    assert may(action, FOREIGN, mine | {"aws:RequestTag/owner": "ci"})
    assert not may(action, FOREIGN, mine | {f"aws:RequestTag/{TAG}": "prod"})


def test_a_key_and_a_repository_are_only_for_a_stack_with_a_registry():
    ours, theirs = (f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/{prefix}/runner" for prefix in ("gpu-ci", "shop"))
    registry = replace(target(), repositories=(ours.replace("runner", "*"),))
    assert may("ecr:DeleteRepository", ours, of=registry)
    assert not may("ecr:DeleteRepository", theirs, of=registry)
    assert not may("ecr:TagResource", theirs, {f"aws:RequestTag/{TAG}": "staging"}, of=registry)
    assert not may("ecr:DeleteRepository", ours)
    mine = {f"aws:ResourceTag/{TAG}": "staging"}
    assert may("kms:ScheduleKeyDeletion", KEY, mine, of=registry)
    assert not may("kms:ScheduleKeyDeletion", KEY, mine)
    assert not may("kms:ScheduleKeyDeletion", KEY, {f"aws:ResourceTag/{TAG}": "bootstrap"}, of=registry)
    assert not may(
        "kms:TagResource", KEY, {f"aws:ResourceTag/{TAG}": "bootstrap", f"aws:RequestTag/{TAG}": "staging"}, of=registry
    )


def test_without_build_caches_there_is_no_right_in_s3():
    assert target().buckets == ()
    assert not any(action.startswith("s3:") for held in changes(target())["named"]["Statement"] for action in held["Action"])
    assert may("s3:DeleteBucket", "arn:aws:s3:::cache", of=replace(target(), buckets=("cache",)))


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        *(
            (f"{verb}LaunchTemplate{end}", "launch-template")
            for verb, end in (("Create", "Version"), ("Modify", ""), ("Delete", ""))
        ),
        *((f"{verb}Route", "route-table") for verb in ("Create", "Replace", "Delete")),
        *((f"{verb}RouteTable", "subnet") for verb in ("Associate", "Disassociate")),
        ("ReplaceRouteTableAssociation", "route-table"),
        *((action.removeprefix("ec2:"), "security-group") for action in sorted(RULES)),
    ],
)
def test_what_others_made_is_not_changed(action: str, kind: str):
    """A new version of another team's launch template would run our code as their role, which has no boundary."""
    theirs, name = FOREIGN.replace("instance/i-", f"{kind}/x-"), f"ec2:{action}"
    assert may(name, theirs, {f"aws:ResourceTag/{TAG}": "staging"})
    assert not may(name, theirs), "without a tag"
    assert not may(name, theirs, {f"aws:ResourceTag/{TAG}": "prod"})
    assert not may(name, theirs, {"aws:ResourceTag/aws:eks:cluster-name": "shop"})
    assert not may(name, theirs, {f"aws:ResourceTag/{TAG}": "staging", "aws:RequestedRegion": "eu-west-1"})


def test_every_provider_tags_what_the_deploy_role_changes_later():
    providers = [(stack, each) for stack in STACKS for each in of_type(recorded(stack), "pulumi:providers:aws")]
    assert {stack for stack, _ in providers} >= {"staging", "prod"}
    for stack, provider in providers:
        assert json.loads(provider.inputs["defaultTags"])["tags"][TAG] == recorded(stack).stack


@pytest.mark.parametrize("action", sorted(RULES))
def test_rules_of_the_security_group_that_eks_made_for_a_cluster_of_the_stack(action: str):
    (cluster,) = target().clusters
    group, rule = (FOREIGN.replace("instance/i-", kind) for kind in ("security-group/sg-", "security-group-rule/sgr-"))
    assert may(action, group, {"aws:ResourceTag/aws:eks:cluster-name": cluster})
    assert may(action, rule), "the group decides"


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        *((f"ec2:{action}", "volume/vol-1") for action in ("CreateSnapshot", "AttachVolume", "ModifyVolume", "DeleteVolume")),
        *((f"ec2:{action}", "snapshot/snap-1") for action in ("CreateVolume", "LockSnapshot", "EnableFastSnapshotRestores")),
        *((f"ec2:{verb}SecurityGroupIngress", "security-group/sg-1") for verb in ("Authorize", "Revoke")),
        *((f"ec2:{verb}Route", "route-table/rtb-1") for verb in ("Create", "Delete")),
        *(
            (f"autoscaling:{verb}", "autoScalingGroup:1:autoScalingGroupName/x")
            for verb in ("SetDesiredCapacity", "UpdateAutoScalingGroup")
        ),
    ],
)
def test_a_role_of_the_fleet_neither_reads_nor_changes_what_others_made(action: str, resource: str):
    held, (cluster,) = [boundary(target())], target().clusters
    service = action.partition(":")[0]
    account = "" if resource.startswith("snapshot") else ACCOUNT
    arn = f"arn:aws:{service}:us-west-2:{account}:{resource}"
    ours = (TAG, "staging"), (f"kubernetes.io/cluster/{cluster}", "owned"), ("ebs.csi.aws.com/cluster-name", cluster)
    for key, value in ours:
        assert allows(held, action, arn, WHERE | {f"aws:ResourceTag/{key}": value})
        assert not allows(held, action, arn, WHERE | {f"aws:ResourceTag/{key}": f"not-{value}"})
    assert not allows(held, action, arn, WHERE), "without a tag"


def test_a_role_of_the_fleet_makes_new_volumes_and_snapshots_and_deletes_those_of_old_images():
    held = [boundary(target())]
    assert allows(held, "ec2:CreateVolume", f"arn:aws:ec2:us-west-2:{ACCOUNT}:volume/*", WHERE)
    assert allows(held, "ec2:CreateSnapshot", "arn:aws:ec2:us-west-2::snapshot/*", WHERE)
    old, builder = "arn:aws:ec2:us-west-2::snapshot/snap-1", {"aws:ResourceTag/CreatedBy": "EC2 Image Builder"}
    assert allows(held, "ec2:DeleteSnapshot", old, WHERE | builder)
    assert not allows(held, "ec2:DeleteSnapshot", old, WHERE)
    assert not allows(held, "ec2:CreateVolume", old, WHERE | builder), "an image of others"


@pytest.mark.parametrize("key", ["ebs.csi.aws.com/cluster-name", "kubernetes.io/cluster/gpu-ci-staging-usw2", "CreatedBy", TAG])
def test_a_role_of_the_fleet_does_not_make_what_exists_its_own_by_a_tag(key: str):
    held = [boundary(target())]
    assert not allows(held, "ec2:CreateTags", FOREIGN, WHERE | {"aws:TagKeys": key})
    assert allows(held, "ec2:CreateTags", FOREIGN, WHERE | {"aws:TagKeys": key, "ec2:CreateAction": "CreateVolume"})


# -- state ---------------------------------------------------------------------------------------------------------------


def may_state(action: str, name: str, context: dict[str, str] | None = None, *, write: bool = True) -> bool:
    held = rights.state(BUCKET, KEY, "us-west-2", "staging", write=write)
    return allows([held], action, KEY if action.startswith("kms:") else f"{BUCKET}/{name}", context or {})


@pytest.mark.parametrize(
    "name",
    [
        ".pulumi/stacks/gpu-ci/{}.json",
        ".pulumi/stacks/gpu-ci/{}.json.gz.bak",
        ".pulumi/stacks/gpu-ci/{}.pulumi-tags",
        ".pulumi/history/gpu-ci/{0}/{0}-1.history.json",
        ".pulumi/backups/gpu-ci/{0}/{0}.1.json",
        ".pulumi/locks/organization/gpu-ci/{}/1.json",
    ],
)
def test_a_stack_reads_and_writes_its_own_state_alone(name):
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert may_state(action, name.format("staging"))
        for other in ("prod", "staging-2", "stagin"):
            assert not may_state(action, name.format(other)), other
    assert may_state("s3:GetObject", name.format("staging"), write=False)
    assert not may_state("s3:PutObject", name.format("staging"), write=False)


def test_the_backends_own_file_is_read_and_not_written():
    assert may_state("s3:GetObject", ".pulumi/meta.yaml")
    assert not may_state("s3:PutObject", ".pulumi/meta.yaml")
    assert not may_state("s3:GetObject", ".pulumi/stacks/gpu-ci-bootstrap/main.json")


def test_a_stack_decrypts_its_own_secrets_alone():
    """All stacks share the key, and the encrypted secrets of a stack are in its file in Git."""
    for write in (True, False):
        assert may_state("kms:Decrypt", "", {"kms:EncryptionContext:stack": "staging"}, write=write)
        assert not may_state("kms:Decrypt", "", {"kms:EncryptionContext:stack": "prod"}, write=write)
        assert not may_state("kms:Decrypt", "", write=write)
        assert may_state("kms:Decrypt", "", {"kms:ViaService": "s3.us-west-2.amazonaws.com"}, write=write)
