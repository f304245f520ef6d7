"""no-foreign-identity: whom roles trust, who may enter the cluster, and which pods get a role."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.kinds import CLUSTER_ROLE_BINDING, CONFIG_MAP, EKS_ADDON, EKS_COMPONENT, IAM_ROLE
from policies.rules.no_foreign_identity import ACCESS, IDENTITY, OIDC, RULE
from policies.rules.record import Resource
from tests.day import AS_OF
from tests.policies.cases import Member, StackCase
from tests.policies.container_fixtures import JOBS, SPACE, hooked, hooks
from tests.policies.harness import as_read, config_of, judge_stack, said
from tests.policies.machine_fixtures import case
from tests.policies.pool_fixtures import RELEASE, RUNNER_SET, RUNNER_SET_PATCH
from tests.policies.suite import Suite

OWN, FOREIGN = "123456789012", "999999999999"
BOUNDARY = {"permissionsBoundary": f"arn:aws:iam::{OWN}:policy/boundary"}
GITHUB = f"arn:aws:iam::{OWN}:oidc-provider/token.actions.githubusercontent.com"
ACCOUNTS, ISSUERS, JOB_ROLES = (config_of("no-foreign-identity", name) for name in ("accounts", "issuers", "jobRoles"))
ADMIN = f"arn:aws:iam::{FOREIGN}:role/admin"
BY_FILE = "name the principal in Pulumi.staging.yaml: gpu-ci:clusters.<cluster>.admins or viewers"


def trusts(principal: Any, **more: Any) -> Member:
    document = {"Statement": [{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", **more}]}
    return Member(IAM_ROLE, "role", {"assumeRolePolicy": json.dumps(document), **BOUNDARY})


PODS = trusts({"Service": "pods.eks.amazonaws.com"})


def trusted(who: str) -> str:
    return (
        f"assumeRolePolicy: Statement[0] trusts {who}, which is not of this stack; remove it, or list your account in "
        f"{ACCOUNTS}, your identity provider in {ISSUERS}"
    )


def issuer(url: str) -> Member:
    return Member(OIDC, "issuer", {"url": url, "clientIdLists": ["sts.amazonaws.com"]})


def identity(namespace: str, role: str = "role") -> Member:
    props = {"clusterName": "usw2", "namespace": namespace, "serviceAccount": "default"}
    if not role:
        return Member(IDENTITY, "identity", props | {"roleArn": ADMIN})
    # The ARN of a new role is not known yet.
    return Member(IDENTITY, "identity", props, property_depends={"roleArn": (role,)})


def undeclared(name: str) -> str:
    return f'{name} is "{ADMIN}": the stack does not declare this role; declare it, or list it in {JOB_ROLES}'


def at_home(namespace: str) -> str:
    return f'namespace is "{namespace}": each job there can use it; list it in {JOB_ROLES}, or remove it'


def entry(token: str) -> Member:
    return Member(token, "entry", {"clusterName": "usw2", "principalArn": ADMIN})


def aws_auth(token: str, name: str = "aws-auth") -> Member:
    return Member(token, "auth", {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"mapRoles": "[]"}})


def binding(namespace: str) -> Member:
    subjects = [{"kind": "ServiceAccount", "name": "runner", "namespace": namespace}]
    return Member(CLUSTER_ROLE_BINDING, "binding", {"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": subjects})


def everywhere(namespace: str) -> str:
    return f'subjects[0].namespace is "{namespace}": jobs there could act in every namespace; bind a Role in one namespace'


SETS = (RELEASE, RUNNER_SET, RUNNER_SET_PATCH)
CONFIG_MAPS = (CONFIG_MAP, f"{CONFIG_MAP}Patch")

SUITE = Suite(
    RULE,
    passing=(
        StackCase((PODS,)),
        StackCase((trusts({"AWS": f"arn:aws:iam::{OWN}:role/deploy"}),)),
        StackCase((trusts({"AWS": FOREIGN}),), config={"accounts": [FOREIGN]}),
        StackCase((trusts({"Federated": GITHUB}),)),
        StackCase((issuer("https://token.actions.githubusercontent.com"),)),
        StackCase((issuer("https://login.example"),), config={"issuers": ["login.example"]}),
        *(case(hooked(token), hooks(), PODS, identity("kube-system")) for token in SETS),
        case(hooked(), hooks(), identity(SPACE, ""), jobRoles=[ADMIN]),
        StackCase((Member(EKS_ADDON, "addon", {"addonName": "vpc-cni"}),)),
        StackCase((Member(EKS_COMPONENT, "cluster", {"name": "usw2"}),)),
        *(StackCase((aws_auth(token, "settings"),)) for token in CONFIG_MAPS),
        case(hooked(), hooks(), binding("gpu-sweeps")),
    ),
    violating=(
        StackCase((trusts({"AWS": FOREIGN}),), {trusted(FOREIGN): "role"}),
        StackCase(
            (issuer("https://evil.example"),),
            {
                'url is "https://evil.example": everybody for whom it signs tokens may log in; remove it, or list it in '
                f"{ISSUERS}": "issuer"
            },
        ),
        *(
            case(hooked(token), hooks(), PODS, identity(namespace), messages={at_home(namespace): "identity"})
            for token in SETS
            for namespace in (SPACE, JOBS)
        ),
        StackCase((PODS, identity("kube-system", "")), {undeclared("roleArn"): "identity"}),
        StackCase(
            (PODS, Member(EKS_ADDON, "addon", {"addonName": "x", "serviceAccountRoleArn": ADMIN})),
            {undeclared("serviceAccountRoleArn"): "addon"},
        ),
        StackCase(
            (PODS, Member(EKS_ADDON, "addon", {"addonName": "x", "podIdentityAssociations": [{"roleArn": ADMIN}]})),
            {undeclared("roleArn"): "addon"},
        ),
        *(
            StackCase(
                (entry(token),),
                {f'principalArn is "{ADMIN}": it gets rights in the cluster beside the stack file; {BY_FILE}': "entry"},
            )
            for token in sorted(ACCESS)
        ),
        StackCase(
            (Member(EKS_COMPONENT, "cluster", {"name": "usw2", "accessEntries": {"x": {"principalArn": ADMIN}}}),),
            {f"accessEntries gives rights in the cluster beside the stack file; {BY_FILE}": "cluster"},
        ),
        StackCase(
            (Member(EKS_COMPONENT, "cluster", {"authenticationMode": "API_AND_CONFIG_MAP"}),),
            {
                'authenticationMode is "API_AND_CONFIG_MAP": the ConfigMap aws-auth then gives rights in the cluster; write '
                "API": "cluster"
            },
        ),
        *(case(hooked(), hooks(), binding(at), messages={everywhere(at): "binding"}) for at in (SPACE, JOBS)),
        *(
            StackCase(
                (aws_auth(token),),
                {f"metadata.name is aws-auth: it can make anybody an administrator of the cluster; {BY_FILE}": "auth"},
            )
            for token in CONFIG_MAPS
        ),
    ),
    forbidden=ACCESS,
)


@pytest.mark.parametrize(
    "principal",
    [
        "*",
        {"AWS": "*"},
        {"AWS": [OWN, f"arn:aws:iam::{FOREIGN}:root"]},
        {"Federated": f"arn:aws:iam::{OWN}:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/EVIL"},
        {"Federated": f"arn:aws:iam::{OWN}:saml-provider/people"},
        {"Federated": "cognito-identity.amazonaws.com"},
        {"Federated": f"arn:aws:iam::{OWN}:oidc-provider/token.actions.githubusercontent.com.evil.example"},
    ],
)
def test_a_stranger_whom_a_role_trusts_has_several_spellings(principal: Any) -> None:
    assert len(judge_stack(RULE, [trusts(principal, Condition={"StringEquals": {"sts:ExternalId": "x"}})]).messages) == 1


def test_an_enterprise_of_github_has_an_issuer_of_its_own() -> None:
    url = "https://token.actions.githubusercontent.com/acme"
    assert judge_stack(RULE, [issuer(url), trusts({"Federated": f"{GITHUB}/acme"})]) == said()


def test_a_role_of_the_stack_is_known_by_its_arn_once_it_exists() -> None:
    role = Member(IAM_ROLE, "role", {**PODS.props, "arn": f"arn:aws:iam::{OWN}:role/efs"})

    def given(arn: str) -> Member:
        return Member(IDENTITY, "identity", {"namespace": "kube-system", "roleArn": arn}, property_depends={"roleArn": ("role",)})

    assert judge_stack(RULE, [role, given(f"arn:aws:iam::{OWN}:role/efs")]) == said()
    assert judge_stack(RULE, [role, given(ADMIN)]).messages == (undeclared("roleArn"),)


def test_pods_assume_no_role_of_another_account() -> None:
    for target, messages in (
        (f"arn:aws:iam::{OWN}:role/b", 0),
        (ADMIN, 1),
    ):
        given = identity("kube-system")
        member = Member(IDENTITY, "identity", {**given.props, "targetRoleArn": target}, property_depends=given.property_depends)
        assert len(judge_stack(RULE, [PODS, member]).messages) == messages


@pytest.mark.parametrize(
    ("account", "boundary", "messages"), [(OWN, BOUNDARY, 0), (FOREIGN, BOUNDARY, 1), (FOREIGN, {}, 0)], ids=str
)
def test_an_administrator_of_the_stack_file_is_of_an_account_of_the_stack(
    account: str, boundary: dict[str, str], messages: int
) -> None:
    """Where the stack shows one."""
    token = sorted(ACCESS)[0]
    urn = f"urn:pulumi:staging::gpu-ci::gpu-ci:index:EksGpuCluster${token}::entry"
    resources = [
        Resource(token, as_read({"principalArn": f"arn:aws:iam::{account}:role/platform"}), urn, "entry"),
        Resource(IAM_ROLE, as_read(boundary), f"urn:pulumi:staging::gpu-ci::{IAM_ROLE}::role", "role"),
    ]
    assert len(RULE.judge(resources, {}, AS_OF).violations) == messages
