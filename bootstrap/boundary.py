"""The permissions boundary of a stack's own roles: the most that nodes, control plane, drivers and pipelines can ever do.

`fleet/facts/data/iam_role_policies.csv` has every action of the policies that the fleet gives its roles. A role gets what both
its own policies and the boundary allow.
"""

from __future__ import annotations

import re
from functools import cache

from bootstrap.rights import Document, Target, allow, document, fitting, scope
from fleet.facts.tables import rows
from fleet.providers.tags import STACK_TAG

_SCOPES = {
    "never": r"iam:\w+",
    "parameters": r"ssm:GetParameters?",
    "objects": r"s3:GetObject",
    "buckets": r"s3:\w+",
    "repositories": r"ecr:(BatchDeleteImage|BatchImportUpstreamImage|CreateRepository|PutLifecyclePolicy|SetRepositoryPolicy"
    r"|TagResource)",
    "decryption": r"kms:Decrypt",
    "grants": r"kms:(Create|Retire)Grant",
    "instances": r"ec2:ModifyInstanceAttribute",
    "regions": r"[\w-]+:\w+",
}
"""The statement that an action belongs to: the first one whose pattern matches."""
DENIED = ("account:*", "iam:*", "organizations:*", "sts:AssumeRole*")
"""Denied even where the policy of a resource would allow it."""
_TAGS = {
    "ec2:CreateTags": "ec2:CreateAction",
    "elasticfilesystem:TagResource": "elasticfilesystem:CreateAction",
}
"""Actions that tag, with the condition key that only a request has which creates what it tags."""


@cache
def role_actions() -> frozenset[str]:
    """Every action of a policy that the fleet gives a role."""
    return frozenset(row["action"] for row in rows("iam_role_policies.csv"))


def boundary(target: Target) -> Document:
    """The boundary of a stack. All actions that describe have one pattern for each service, because IAM limits the length.

    Raises FleetError if it is too long all the same.
    """
    short = {re.sub(r":Describe\w+", ":Describe*", action) for action in role_actions()}
    statements = []
    for name in _SCOPES:
        limits = _limits(target, name)
        if limits is not None:
            statements.append(
                allow(sorted(action for action in short if scope(action.replace("*", ""), _SCOPES) == name), **limits)
            )
    statements.append({"Effect": "Deny", "Action": list(DENIED), "Resource": "*"})
    # The deploy role can delete resources with the stack's tag. So only resources that a role creates get it.
    for action, key in _TAGS.items():
        condition = {"ForAnyValue:StringEquals": {"aws:TagKeys": STACK_TAG}, "Null": {key: "true"}}
        statements.append({"Effect": "Deny", "Action": action, "Resource": "*", "Condition": condition})
    return fitting(target, "boundary", document(statements))


def _limits(target: Target, name: str) -> Document | None:
    """The resources and the condition of a statement; None if the stack has nothing of the kind."""
    buckets = [f"arn:aws:s3:::{bucket}" for bucket in target.buckets]
    objects = [f"{bucket}/*" for bucket in buckets]
    services = [f"ecr.{region}.amazonaws.com" for region in target.regions]
    regions = sorted({*target.regions, *target.image_regions})
    resources: dict[str, list[str]] = {
        "parameters": [f"arn:aws:ssm:*:*:parameter/{pattern}" for pattern in ("AmazonCloudWatch-*", "aws/*")],
        "objects": ["arn:aws:s3:::ec2imagebuilder*", *objects],
        "buckets": [*buckets, *objects],
        "repositories": list(target.repositories),
    }
    conditions: dict[str, Document] = {
        "decryption": {"ForAnyValue:StringEquals": {"aws:CalledVia": ["imagebuilder.amazonaws.com"]}},
        "grants": {"StringEquals": {"kms:ViaService": services}} if target.repositories else {},
        "instances": {"StringEquals": {f"aws:ResourceTag/{STACK_TAG}": target.stack}},
        "regions": {"StringEquals": {"aws:RequestedRegion": regions}},
    }
    if condition := conditions.get(name):
        return {"Resource": "*", "Condition": condition}
    return {"Resource": resources[name]} if resources.get(name) else None
