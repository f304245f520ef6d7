"""The IAM policies of a stack's roles: the union of what its resource types need, limited to what the stack file names.

`fleet/facts/data/iam_actions.csv` says which actions each resource type needs, with source and date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fleet.facts.errors import FleetError, Problem
from fleet.facts.tables import entry, rows
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.providers.eks.build_caches import provider_arn
from fleet.providers.eks.cluster import EksPools
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.fleet import NAMESPACE, SECRETS
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import physical_name

Document = dict[str, Any]

MOST = 6144
"""Characters of a managed policy, without white space (IAM user guide, IAM and STS quotas)."""
PASSED_TO = ("ec2", "ecr", "eks", "imagebuilder", "pods.eks")
"""AWS services that take a role of the fleet."""
LINKED = (
    *("autoscaling", "eks", "eks-nodegroup", "elasticfilesystem", "imagebuilder"),
    *("pullthroughcache.ecr", "servicequotas", "spot"),
)
"""AWS services that create their own role in the account with the first resource (AWS, services that work with IAM)."""
ATTACHED = (
    "AmazonEBSCSIDriverEKSClusterScopedPolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
    "CloudWatchAgentServerPolicy",
    "EC2InstanceProfileForImageBuilder",
    "service-role/AmazonEFSCSIDriverPolicy",
    "service-role/EC2ImageBuilderLifecycleExecutionPolicy",
    "AmazonEKSClusterPolicy",
)
"""AWS managed policies that the fleet attaches to its roles; the last one is by pulumi-eks (nodejs/eks/cluster/cluster.ts)."""

_SCOPES = {
    "attach": r"iam:(Attach|Detach)RolePolicy",
    "pass": r"iam:PassRole",
    "linked": r"iam:CreateServiceLinkedRole",
    "oidc": r"iam:\w*OpenIDConnectProvider\w*",
    "roles": r"iam:\w+",
    "clusters": r"eks:(?!CreateCluster$)\w+",
    "buckets": r"s3:\w+",
    "budgets": r"budgets:\w+",
    "registries": r"secretsmanager:\w+",
    "tagging": r"ec2:(Create|Delete)Tags|(ecr|elasticfilesystem|kms):(Tag|Untag)Resource",
    "tagged": r"ec2:Delete(?!NetworkInterface$)\w+|ec2:ReleaseAddress|elasticfilesystem:Delete\w+|ecr:DeleteRepository"
    r"|kms:(?!CreateKey$)\w+",
    "regions": r"\w+:\w+",
}
"""The statement that an action belongs to: the first one whose pattern matches."""


@dataclass(frozen=True)
class Need:
    """An action that the AWS provider or AWS itself asks for when a resource of a type is created, read, updated or deleted."""

    type: str
    verb: str
    action: str


@cache
def needs() -> tuple[Need, ...]:
    """Every row of the table."""
    return tuple(entry(Need, row) for row in rows("iam_actions.csv"))


@dataclass(frozen=True)
class Target:
    """What of an account one stack may change: regions, and names as IAM patterns."""

    account: str
    stack: str
    regions: tuple[str, ...]
    clusters: tuple[str, ...]
    """Names in EKS."""
    names: tuple[str, ...]
    """Beginnings of the names of roles, instance profiles and budgets: Pulumi adds a random end."""
    buckets: tuple[str, ...]

    passed: tuple[str, ...] = ()
    """ARNs of node roles that exist already: nodes of a cluster that exists get them."""

    @classmethod
    def of(cls, account: str, stack: str, root: Path) -> Target:
        """From the file of a stack in `root`. Raises InputError with a line for each problem of that file, and FleetError."""
        config = stackfile.with_placeholders(stackfile.load(stack, root), SECRETS)
        found = {name: held for name, held in fleet_of(config).clusters.items() if isinstance(held, EksPools)}
        if not found:
            message = f"no cluster of Pulumi.{stack}.yaml is in AWS, so it needs no role; remove the stack here"
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "no_aws"),))
        buckets = [bucket for held in found.values() if held.build_caches for bucket in held.build_caches.buckets]
        return cls(
            account,
            stack,
            tuple(sorted({held.region for held in found.values()})),
            tuple(held.found.identity if held.found else physical_name(NAMESPACE, stack, name) for name, held in found.items()),
            tuple(f"{name}-*" for name in (*found, *buckets)),
            tuple(buckets),
            tuple(held.existing.node_role_arn for held in found.values() if isinstance(held, ExistingEksCluster)),
        )

    def role(self, purpose: str) -> str:
        """The name of one of the stack's two roles."""
        return f"{NAMESPACE}-{self.stack}-{purpose}"


def reading() -> Document:
    """What a preview and a refresh need: every action that reads, of any resource."""
    return _document([_allow(sorted(_reads()), Resource="*")])


def changes(target: Target) -> dict[str, Document]:
    """What a deployment needs besides, as three policies by the end of their name.

    `regional` are resources without a name before they exist: only in the stack's regions, and deletion only by the stack's tag.
    `named` are resources with a name. `iam` keeps the roles that deploy out of their own reach. Raises FleetError for a policy
    that is too long.
    """
    own = [f"arn:aws:iam::{target.account}:{kind}/{NAMESPACE}-*" for kind in ("role", "policy")]
    documents = {
        "regional": _document(_statements(target, ("regions", "tagged", "tagging"))),
        "named": _document(_statements(target, ("clusters", "buckets", "budgets", "registries"))),
        "iam": _document(
            [
                *_statements(target, ("attach", "pass", "linked", "oidc", "roles")),
                {"Effect": "Deny", "Action": "iam:*", "Resource": own},
            ]
        ),
    }
    for part, document in documents.items():
        if (length := len(json.dumps(document, separators=(",", ":")))) > MOST:
            message = f"the policy {target.role(part)} has {length} characters, and IAM allows {MOST}; split the stack's clusters"
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", target.stack), message, "", "policy_length"),))
    return documents


def state(bucket_arn: str, key_arn: str | None, *, write: bool) -> Document:
    """What a backend in S3 needs: a preview reads the state, a deployment writes it too."""
    objects = ["s3:GetObject", *(["s3:PutObject", "s3:DeleteObject"] if write else [])]
    crypt = ["kms:Decrypt", *(["kms:Encrypt", "kms:GenerateDataKey"] if write else []), "kms:DescribeKey"]
    return _document(
        [
            _allow(["s3:ListBucket", "s3:GetBucketLocation"], Resource=bucket_arn),
            _allow(objects, Resource=f"{bucket_arn}/*"),
            *([_allow(crypt, Resource=key_arn)] if key_arn else []),
        ]
    )


def scope(action: str) -> str:
    """The name of the statement that an action belongs to."""
    return next(name for name, pattern in _SCOPES.items() if re.fullmatch(pattern, action))


def _reads() -> set[str]:
    return {need.action for need in needs() if need.verb == "read"}


def _statements(target: Target, scopes: tuple[str, ...]) -> Iterator[Document]:
    writes = sorted({need.action for need in needs()} - _reads())
    for name in scopes:
        yield _allow([action for action in writes if scope(action) == name], **_limits(target, name))


def _limits(target: Target, name: str) -> Document:  # noqa: PLR0911 - one return for each scope
    """The resources and the condition of a statement."""
    iam = f"arn:aws:iam::{target.account}:"
    own = [f"{iam}{kind}/{each}" for each in target.names for kind in ("role", "instance-profile")]
    where = {"StringEquals": {"aws:RequestedRegion": list(target.regions)}}
    tag = f"aws:ResourceTag/{STACK_TAG}"
    match name:
        case "attach":
            policies = [f"arn:aws:iam::aws:policy/{each}" for each in ATTACHED]
            return {"Resource": own, "Condition": {"ArnEquals": {"iam:PolicyARN": policies}}}
        case "pass":
            return {
                "Resource": [*own, *target.passed],
                "Condition": {"StringEquals": {"iam:PassedToService": _services(PASSED_TO)}},
            }
        case "linked":
            condition = {"StringEquals": {"iam:AWSServiceName": _services(LINKED)}}
            return {"Resource": f"{iam}role/aws-service-role/*", "Condition": condition}
        case "oidc":
            return {"Resource": provider_arn(target.account)}
        case "roles":
            return {"Resource": own}
        case "clusters":
            arns = [f"arn:aws:eks:*:{target.account}:*/{each}" for each in target.clusters]
            return {"Resource": [*arns, *(f"{arn}/*" for arn in arns)]}
        case "buckets":
            return {"Resource": [f"arn:aws:s3:::{each}{end}" for each in target.buckets or target.names for end in ("", "/*")]}
        case "budgets":
            return {"Resource": [f"arn:aws:budgets::{target.account}:budget/{each}" for each in target.names]}
        case "registries":
            return {"Resource": f"arn:aws:secretsmanager:*:{target.account}:secret:ecr-pullthroughcache/*"}
        case "tagged":
            return {"Resource": "*", "Condition": {"StringEquals": where["StringEquals"] | {tag: target.stack}}}
        case "tagging":
            # What is created has no tag yet. What another stack or the bootstrap created has another value.
            return {"Resource": "*", "Condition": where | {"StringEqualsIfExists": {tag: target.stack}}}
        case _:
            return {"Resource": "*", "Condition": where}


def _services(names: tuple[str, ...]) -> list[str]:
    return [f"{name}.amazonaws.com" for name in names]


def _allow(actions: list[str], **limits: Any) -> Document:
    return {"Effect": "Allow", "Action": actions, **limits}


def _document(statements: Any) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}
