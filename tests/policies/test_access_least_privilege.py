"""access-least-privilege: attached policies, documents, statements of OCI, and bindings of the cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policies.rules.access_least_privilege import ATTACHMENTS, BINDINGS, CLUSTER_ROLES, DOCUMENTS, RULE
from policies.rules.kinds import (
    APPLICATION,
    APPLICATION_SET,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CONFIG_MAPS,
    IAM_ROLE,
    RELEASE,
    ROLE_BINDING,
)
from policies.rules.node_role_least_privilege import IAM_POLICY, OCI_POLICY
from policies.rules.record import Resource
from tests.day import AS_OF
from tests.policies.cases import Member, StackCase
from tests.policies.harness import UNKNOWN, as_read, config_of, judge_stack, said
from tests.policies.suite import Suite

AWS, OWN = "arn:aws:iam::aws:policy/", "arn:aws:iam::123456789012:policy/own"
BROAD = f'{{}} is "{AWS}AdministratorAccess": it gives all of a service or more; attach one that names actions and resources'
UNSEEN = (
    f'policyArn is "{OWN}": the stack does not declare it, so nothing shows what it allows; declare it, or list it in '
    f"{config_of('access-least-privilege', 'allowed')}"
)
EVERYWHERE = "on every resource; name the resources, or add a condition on their tags"


def document(action: Any = "s3:GetObject", resource: Any = "arn:aws:s3:::mine/*", **more: Any) -> str:
    return json.dumps({"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **more}]})


def holds(text: str, token: str = IAM_POLICY) -> Member:
    return Member(token, "policy", {"policy": text})


def attached(name: str, token: str) -> Member:
    return Member(token, "attached", {"policyArn": name, "role": "x"})


def oci(statement: str) -> Member:
    return Member(OCI_POLICY, "policy", {"compartmentId": "ocid1.compartment.oc1..a", "statements": [statement]})


def binding(token: str, subject: dict[str, str], role: str = "cluster-admin") -> Member:
    body = {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [subject]}
    return Member(token, "binding", {"items": [body]} if token.endswith("List") else body)


def nobody(token: str) -> str:
    at = "items[0].subjects[0]" if token.endswith("List") else "subjects[0]"
    return f'{at}.name is "system:anonymous": everybody who reaches the API has the rights of view; name who needs them'


ACCOUNT = {"kind": "ServiceAccount", "name": "operator", "namespace": "tools"}
DYNAMIC = "Allow dynamic-group jobs to manage secret-family in compartment ci"


def role(token: str, resources: str, *verbs: str, view: str = "true") -> Member:
    body = {
        "metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": view}},
        "rules": [{"apiGroups": [""], "resources": [resources], "verbs": verbs or ["get"]}],
    }
    return Member(token, "role", {"items": [body]} if token.endswith("List") else body)


def config_map(token: str, key: str, value: Any) -> Member:
    body = {"metadata": {"name": "argocd-cm"}, "data": {key: value}}
    return Member(token, "config", {"items": [body]} if token.endswith("List") else body)


def argo_cd(token: str, value: Any, chart: str = "argo-cd") -> Member:
    values = {"configs": {"cm": {"users.anonymous.enabled": value}}}
    if token == RELEASE:
        return Member(token, "argo", {"chart": chart, "values": values})
    spec = {"source": {"chart": chart, "helm": {"valuesObject": values}}}
    return Member(token, "argo", {"spec": {"template": {"spec": spec}} if token == APPLICATION_SET else spec})


def argo_told(path: str, key: str, value: str) -> str:
    return (
        f'{path}["{key}"] is {value}: everybody who reaches ArgoCD, or logs in, then has its rights; remove it, and name groups '
        "in policy.csv"
    )


VALUES = {
    RELEASE: "values",
    APPLICATION: "spec.source.helm.valuesObject",
    APPLICATION_SET: "spec.template.spec.source.helm.valuesObject",
}
KUBELET = (
    "rules[0] has nodes/proxy: by the API of the kubelet its accounts run commands in every pod; write nodes/metrics or "
    "nodes/stats"
)
VIEWERS = (
    "rules[0]: the label for the role view gives this to all who may view the cluster; let it only get, list and watch, and no "
    "Secrets"
)

SUITE = Suite(
    RULE,
    passing=(
        *(StackCase((attached(f"{AWS}AmazonEKSWorkerNodePolicy", token),)) for token in sorted(ATTACHMENTS)),
        StackCase((attached(OWN, sorted(ATTACHMENTS)[0]),), config={"allowed": ["arn:aws:iam::123456789012:policy/*"]}),
        *(StackCase((holds(document(), token),)) for token in sorted(DOCUMENTS)),
        StackCase((Member(IAM_ROLE, "role", {"managedPolicyArns": [f"{AWS}AmazonEKS_CNI_Policy"]}),)),
        StackCase((Member(IAM_ROLE, "role", {"inlinePolicies": [{"policy": document()}]}),)),
        StackCase((oci("Allow dynamic-group nodes to read repos in compartment ci"),)),
        *(StackCase((binding(token, ACCOUNT),)) for token in sorted(BINDINGS)),
        *(StackCase((role(token, "pods"),)) for token in sorted(CLUSTER_ROLES)),
        *(StackCase((config_map(token, "users.anonymous.enabled", "false"),)) for token in sorted(CONFIG_MAPS)),
        *(StackCase((argo_cd(token, False),)) for token in VALUES),
    ),
    violating=(
        *(
            StackCase((attached(f"{AWS}AdministratorAccess", token),), {BROAD.format("policyArn"): "attached"})
            for token in sorted(ATTACHMENTS)
        ),
        StackCase((attached(OWN, sorted(ATTACHMENTS)[0]),), {UNSEEN: "attached"}),
        *(
            StackCase(
                (holds(document(resource="*"), token),), {f"policy: Statement[0] allows s3:GetObject {EVERYWHERE}": "policy"}
            )
            for token in sorted(DOCUMENTS)
        ),
        StackCase(
            (Member(IAM_ROLE, "role", {"managedPolicyArns": [f"{AWS}AdministratorAccess"]}),),
            {BROAD.format("managedPolicyArns[0]"): "role"},
        ),
        StackCase(
            (Member(IAM_ROLE, "role", {"inlinePolicies": [{"policy": document("ec2:*", "*")}]}),),
            {f"inlinePolicies[0].policy: Statement[0] allows ec2:* {EVERYWHERE}": "role"},
        ),
        StackCase(
            (oci(DYNAMIC),),
            {
                f'statements[0] is "{DYNAMIC[:60]}…": each job on a machine of jobs has this right; give it to a workload '
                "(request.principal.service_account)": "policy"
            },
        ),
        *(
            StackCase((role(token, "nodes/proxy"),), {f"{'items[0].' * token.endswith('List')}{KUBELET}": "role"})
            for token in sorted(CLUSTER_ROLES)
        ),
        StackCase((role(CLUSTER_ROLE, "secrets"),), {VIEWERS: "role"}),
        *(
            StackCase(
                (config_map(token, "users.anonymous.enabled", "true"),),
                {argo_told("items[0].data" if token.endswith("List") else "data", "users.anonymous.enabled", '"true"'): "config"},
            )
            for token in sorted(CONFIG_MAPS)
        ),
        *(
            StackCase((argo_cd(token, True),), {argo_told(f"{path}.configs.cm", "users.anonymous.enabled", "true"): "argo"})
            for token, path in VALUES.items()
        ),
        *(
            StackCase((binding(token, {"kind": "User", "name": "system:anonymous"}, "view"),), {nobody(token): "binding"})
            for token in sorted(BINDINGS)
        ),
    ),
)


@pytest.mark.parametrize(
    ("member", "faults"),
    [
        (role(CLUSTER_ROLE, "secrets", view="false"), 0),
        (role(CLUSTER_ROLE, "pods", "get", "delete"), 1),
        (role(CLUSTER_ROLE, "*", "get"), 1),
        (role(CLUSTER_ROLE, "*/proxy", "get", view="false"), 1),
        (role(CLUSTER_ROLE, "nodes/metrics", "get", view="false"), 0),
        (config_map(CONFIG_MAP, "policy.default", "role:admin"), 1),
        (config_map(CONFIG_MAP, "policy.default", "role:readonly"), 0),
        (argo_cd(RELEASE, True, "other"), 0),
    ],
)
def test_roles_and_settings_give_everybody_nothing_more(member: Member, faults: int) -> None:
    assert len(judge_stack(RULE, [member]).messages) == faults


TAGGED = {"Condition": {"StringEquals": {"aws:ResourceTag/gpu-ci/stack": "prod"}}}
TLS = {"Condition": {"Bool": {"aws:SecureTransport": "true"}}}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (document(["ec2:Describe*", "ecr:GetAuthorizationToken", "autoscaling:DescribeTags"], "*"), 0),
        (document("logs:PutLogEvents", "*"), 0),
        (document("autoscaling:SetDesiredCapacity", "*", **TAGGED), 0),
        (document("s3:*", ["arn:aws:s3:::mine", "arn:aws:s3:::mine/*"]), 0),
        (document("iam:PassRole", "arn:aws:iam::123456789012:role/node"), 0),
        (document("autoscaling:SetDesiredCapacity", "*", **TLS), 1),
        (document("autoscaling:SetDesiredCapacity", "*"), 1),
        (document("ec2:*", "*", **TAGGED), 1),
        (document("s3:Get*", "*"), 1),
        (document("s3:GetObject", "arn:aws:s3:::*"), 1),
        (document("secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-west-2:123456789012:secret:*"), 1),
        (document("ssm:GetParameter*", "*"), 1),
        (document("kms:Decrypt", "arn:aws:kms:*:*:key/*"), 1),
        (document(["ec2:*", "s3:*", "secretsmanager:GetSecretValue"], "*"), 3),
        (document("iam:PassRole", "*"), 1),
        (document("iam:AttachRolePolicy", "arn:aws:iam::123456789012:role/node"), 1),
        (document("sts:AssumeRole", "arn:aws:iam::999999999999:role/x"), 1),
        (document("IAM:CreateUser", "*"), 1),
        (json.dumps({"Statement": {"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}}), 1),
        (json.dumps({"Statement": {"Effect": "Allow", "Action": "ec2:RunInstances", "NotResource": "arn:aws:ec2:::x"}}), 1),
        (json.dumps({"Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}), 0),
    ],
)
def test_a_document_reads_no_data_and_writes_only_what_it_names(text: str, faults: int) -> None:
    assert len(judge_stack(RULE, [holds(text)]).messages) == faults


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("service-role/AmazonEFSCSIDriverPolicy", True),
        ("CloudWatchAgentServerPolicy", True),
        ("AmazonEC2FullAccess", False),
        ("IAMFullAccess", False),
        ("PowerUserAccess", False),
        ("ReadOnlyAccess", False),
        ("SecretsManagerReadWrite", False),
        ("job-function/SystemAdministrator", False),
    ],
)
def test_a_policy_of_aws_for_people_is_for_no_work(name: str, fits: bool) -> None:
    for token in ATTACHMENTS:
        assert (judge_stack(RULE, [attached(f"{AWS}{name}", token)]) == said()) is fits


def test_a_policy_of_the_stack_is_judged_itself() -> None:
    token = sorted(ATTACHMENTS)[0]
    given = Member(token, "attached", {"policyArn": UNKNOWN}, property_depends={"policyArn": ("policy",)})
    assert judge_stack(RULE, [holds(document()), given]) == said()


@pytest.mark.parametrize(
    ("statement", "fits"),
    [
        ("Allow any-user to use vnics in compartment id x where request.principal.type = 'workload'", True),
        ("Allow service oke to use compute-capacity-reservations in compartment id x", True),
        ("Allow group ops to manage instance-family in compartment ci", True),
        ("Deny any-user to manage all-resources in tenancy", True),
        ("allow ANY-USER to read repos in tenancy", False),
        ("Allow any-user to manage repos in tenancy where target.repo.name = 'x'", False),
        ("Allow dynamic-group jobs to use instances in compartment ci", False),
        ("Allow dynamic-group jobs to {REPOSITORY_MANAGE} in compartment ci", False),
        ("Allow group ops to manage all-resources in compartment ci", False),
        ("Endorse group ops to manage object-family in any-tenancy", False),
        ("Admit group ops of tenancy evil to read object-family in tenancy", False),
        ("Define tenancy evil as ocid1.tenancy.oc1..evil", False),
    ],
)
def test_a_statement_of_oci_names_who_and_what(statement: str, fits: bool) -> None:
    assert (judge_stack(RULE, [oci(statement)]) == said()) is fits


def test_statements_of_a_component_are_judged_once_its_cluster_exists() -> None:
    def judged(above: str) -> Any:
        urn = f"urn:pulumi:prod::gpu-ci::{above}{OCI_POLICY}::rights"
        return RULE.judge([Resource(OCI_POLICY, as_read({"statements": UNKNOWN}), urn, "rights")], {}, AS_OF).unknown

    assert judged("") is not None
    assert judged("gpu-ci:index:OkeGpuCluster$") is None


GROUP = {"kind": "Group", "name": "ops"}


@pytest.mark.parametrize(
    ("token", "subject", "role", "fits"),
    [
        (ROLE_BINDING, GROUP, "edit", True),
        (CLUSTER_ROLE_BINDING, GROUP, "view", True),
        (CLUSTER_ROLE_BINDING, {"kind": "Group", "name": "system:authenticated"}, "system:discovery", True),
        (CLUSTER_ROLE_BINDING, GROUP, "cluster-admin", False),
        (CLUSTER_ROLE_BINDING, {"kind": "User", "name": "eve"}, "edit", False),
        (CLUSTER_ROLE_BINDING, ACCOUNT | {"name": "default"}, "admin", False),
        (ROLE_BINDING, {"kind": "Group", "name": "system:serviceaccounts"}, "view", False),
        (ROLE_BINDING, {"kind": "Group", "name": "system:serviceaccounts:runners-gpu-t4"}, "view", False),
        (CLUSTER_ROLE_BINDING, {"kind": "Group", "name": "system:authenticated"}, "own", False),
        (CLUSTER_ROLE_BINDING, {"kind": "Group", "name": "system:masters"}, "own", False),
    ],
)
def test_nobody_without_a_name_and_no_person_is_bound(token: str, subject: dict[str, str], role: str, fits: bool) -> None:
    assert (judge_stack(RULE, [binding(token, subject, role)]) == said()) is fits
