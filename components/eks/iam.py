"""IAM roles in an EKS cluster's account, and the documents of their rights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws


def document(*statements: Mapping[str, Any]) -> str:
    """A policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def trust(service: str, action: str | Sequence[str] = "sts:AssumeRole") -> str:
    """The document by which a service of AWS takes a role."""
    return document({"Effect": "Allow", "Principal": {"Service": service}, "Action": action})


POD_IDENTITY_TRUST = trust("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"])


def attached(name: str, role: aws.iam.Role, policies: Sequence[str], *, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """AWS' managed policies on a role, each `<name>-<policy>`."""
    return [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy.rpartition('/')[2]}",
            role=role.name,
            policy_arn=f"arn:aws:iam::aws:policy/{policy}",
            opts=pulumi.ResourceOptions(parent=parent),
        )
        for policy in policies
    ]


def identity(
    name: str, cluster_name: pulumi.Input[str], namespace: str, account: str, role: aws.iam.Role, *, parent: pulumi.Resource
) -> aws.eks.PodIdentityAssociation:
    """The association of a role with a service account. A pod gets its credentials when it starts, so it comes before the pod."""
    return aws.eks.PodIdentityAssociation(
        f"{name}-identity",
        cluster_name=cluster_name,
        namespace=namespace,
        service_account=account,
        role_arn=role.arn,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def pod_identity(
    name: str, cluster_name: pulumi.Input[str], namespace: str, account: str, policy: str, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """A role with AWS' managed policy for a service account: what must exist before its pods."""
    child = pulumi.ResourceOptions(parent=parent)
    role = aws.iam.Role(f"{name}-role", assume_role_policy=POD_IDENTITY_TRUST, opts=child)
    rights = aws.iam.RolePolicyAttachment(
        f"{name}-rights", role=role.name, policy_arn=f"arn:aws:iam::aws:policy/{policy}", opts=child
    )
    return [rights, identity(name, cluster_name, namespace, account, role, parent=parent)]
