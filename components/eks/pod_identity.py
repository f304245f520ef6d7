"""The IAM role of an add-on's service account, by EKS Pod Identity."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from components.eks.autoscaler import POD_IDENTITY_TRUST


def pod_identity(
    name: str, cluster_name: pulumi.Input[str], namespace: str, service_account: str, policy: str, *, parent: pulumi.Resource
) -> list[pulumi.Resource]:
    """A role with the managed policy (an ARN) for a service account. A pod gets its credentials when it starts, so the returned
    resources must exist before the add-on.
    """
    child = pulumi.ResourceOptions(parent=parent)
    role = aws.iam.Role(f"{name}-role", assume_role_policy=POD_IDENTITY_TRUST, opts=child)
    rights = aws.iam.RolePolicyAttachment(f"{name}-rights", role=role.name, policy_arn=policy, opts=child)
    association = aws.eks.PodIdentityAssociation(
        f"{name}-identity",
        cluster_name=cluster_name,
        namespace=namespace,
        service_account=service_account,
        role_arn=role.arn,
        opts=child,
    )
    return [rights, association]
