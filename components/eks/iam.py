"""IAM roles in an EKS cluster's account, and the documents of their rights."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from components.component import Text


def document(*statements: Mapping[str, Any]) -> str:
    """A policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(actions: Sequence[str], resources: str | Sequence[str] = "*", **conditions: Any) -> dict[str, Any]:
    """The statement that allows actions, under IAM's conditions by their operator."""
    condition = {"Condition": conditions} if conditions else {}
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources, **condition}


def trust(service: str, action: str | Sequence[str] = "sts:AssumeRole") -> str:
    """The document by which a service of AWS takes a role."""
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": action})


POD_IDENTITY_TRUST = trust("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"])


def service_role(
    name: str, service: str, policies: Sequence[str], *, parent: pulumi.Resource, after: Sequence[pulumi.Resource] = ()
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """The role `<name>-role` of a service of AWS, and its rights: AWS' managed policies on it, each `<name>-<policy>`."""
    opts = pulumi.ResourceOptions(parent=parent, depends_on=[*after])
    role = aws.iam.Role(f"{name}-role", assume_role_policy=trust(service), opts=opts)
    arns = {f"{name}-{policy.rpartition('/')[2]}": f"arn:aws:iam::aws:policy/{policy}" for policy in policies}
    attach, child = aws.iam.RolePolicyAttachment, pulumi.ResourceOptions(parent=parent)
    return role, [attach(called, role=role.name, policy_arn=arn, opts=child) for called, arn in arns.items()]


def pod_identity(
    name: str, cluster_name: Text, namespace: str, account: str, *, parent: pulumi.Resource, policy: str = "", rights: str = ""
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """A role for a service account, and what must exist before its pods: a pod gets its credentials when it starts.

    The role has AWS' managed `policy`, or `rights`, which is a document.
    """
    child = pulumi.ResourceOptions(parent=parent)
    role = aws.iam.Role(f"{name}-role", assume_role_policy=POD_IDENTITY_TRUST, opts=child)
    arn = f"arn:aws:iam::aws:policy/{policy}"
    right: pulumi.Resource = (
        aws.iam.RolePolicyAttachment(f"{name}-rights", role=role.name, policy_arn=arn, opts=child)
        if policy
        else aws.iam.RolePolicy(f"{name}-rights", role=role.id, policy=rights, opts=child)
    )
    association = aws.eks.PodIdentityAssociation(
        f"{name}-identity", cluster_name=cluster_name, namespace=namespace, service_account=account, role_arn=role.arn, opts=child
    )
    return role, [right, association]
