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
from itertools import product
from pathlib import Path
from typing import Any

from fleet.facts.errors import FleetError, Problem
from fleet.facts.groups import grouped
from fleet.facts.record import Record
from fleet.facts.tables import beside, rows
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
_TABLE: dict[str, Any] = beside(__file__, "rights.toml")
PASSED_TO, LINKED, DENIED = (tuple(_TABLE[key]) for key in ("passed-to", "linked", "denied"))
ATTACHED = tuple(dict.fromkeys(row["policy"] for row in rows("iam_role_policies.csv") if not row["policy"].endswith("(inline)")))
"""AWS managed policies that the fleet attaches to its roles; the last one is by pulumi-eks (nodejs/eks/cluster/cluster.ts)."""
_SHORT = re.compile(r"(\w+:Describe|(?:ec2|ssm)messages:|elasticloadbalancing:(?:Create|Delete|Modify))\w+")
"""What describes, all that an agent of Systems Manager sends, and most of load balancers: one pattern in the boundary."""


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
        every = clusters.values()
        named = (one.found.identity if one.found else physical_name(NAMESPACE, stack, name) for name, one in clusters.items())
        registries = [(one.region, one.registry.prefix) for one in every if isinstance(one, EksCluster) and one.registry]
        target = cls(
            account,
            stack,
            tuple(sorted({cluster.region for cluster in every})),
            tuple(named),
            tuple(f"{name}-*" for name in (*clusters, *buckets)),
            tuple(buckets),
            tuple(cluster.existing.node_role_arn for cluster in every if isinstance(cluster, ExistingEksCluster)),
            tuple(f"arn:aws:ecr:{region}:{account}:repository/{prefix}/*" for region, prefix in registries),
            tuple(sorted({region for cluster in every for ami in cluster.amis.values() for region in ami.regions})),
            any(cluster.oidc_provider == "create" for cluster in caches),
        )
        if fleet.permissions_boundary != target.boundary:
            setting = f"gpu-ci:permissionsBoundary: {target.boundary} into Pulumi.{stack}.yaml"
            message = f"its deploy role creates roles only with the stack's boundary; write {setting}"
            raise FleetError((Problem(("gpu-ci-bootstrap:stacks", stack), message, "", "boundary"),))
        return target

    @property
    def boundary(self) -> str:
        """ARN of the permissions boundary of the roles that the stack creates."""
        return f"arn:aws:iam::{self.account}:policy/{self.role('boundary')}"

    @property
    def values(self) -> Mapping[str, Sequence[str]]:
        """What the names in braces of `rights.toml` stand for."""
        alone = {"account": self.account, "boundary": self.boundary, "project": NAMESPACE, "stack": self.stack, "tag": STACK_TAG}
        services = {"attached": ATTACHED, "denied": DENIED, "linked": LINKED, "passed_to": PASSED_TO, "ends": ("", "/*")}
        lists = {key: getattr(self, key) for key in ("names", "clusters", "passed", "buckets", "repositories", "regions")}
        lists["all_regions"] = sorted({*self.regions, *self.image_regions})
        lists["logs"] = [*map(control_plane_logs, self.clusters)]
        lists["oidc"] = [provider_arn(self.account)] * self.oidc
        lists["if_repositories"] = ["*"] * bool(self.repositories)
        return {key: (text,) for key, text in alone.items()} | services | lists

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
    writes = {need["action"] for need in needs()} - _reads()
    statements = {part: [*_statements(target, "", scopes, writes)] for part, scopes in _TABLE["parts"].items()}
    statements["iam"] += _denied(target, "own-roles")
    documents = {part: document(of_part) for part, of_part in statements.items()}
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
    reads = allow(["s3:GetObject"], Resource=[f"{bucket_arn}/.pulumi/meta.yaml", *objects])
    writes = [allow(["s3:DeleteObject", "s3:PutObject"], Resource=objects)] if write else []
    keys = (allow(crypt, Resource=key_arn, Condition={"StringEquals": use}) for use in uses if key_arn)
    return document([allow(["s3:ListBucket", "s3:GetBucketLocation"], Resource=bucket_arn), reads, *writes, *keys])


@cache
def scope(action: str, of: str = "") -> str:
    """The name of the statement that an action belongs to: the first one whose pattern matches. `of`: "boundary-" or empty."""
    scopes: dict[str, str] = _TABLE[f"{of}scopes"]
    return next(name for name, pattern in scopes.items() if re.fullmatch(pattern, action))


def _reads() -> set[str]:
    return {need["action"] for need in needs() if need["verb"] == "read"}


def _statements(target: Target, of: str, scopes: Iterable[str], actions: Iterable[str]) -> Iterator[Document]:
    """The statements of scopes. None, if the stack has nothing of the kind."""
    by_scope = grouped((scope(action.replace("*", ""), of), action) for action in sorted(actions))
    values = target.values
    for name in scopes:
        filled = (_filled(limits, values) for limits in _TABLE[f"{of}limits"].get(name, ()))
        yield from (allow(by_scope.get(name, []), **limits) for limits in filled if limits["Resource"])


def _denied(target: Target, table: str) -> Iterator[Document]:
    yield from ({"Effect": "Deny", **_filled(limits, target.values)} for limits in _TABLE[table])


def _filled(part: Any, values: Mapping[str, Sequence[str]]) -> Any:
    if isinstance(part, Mapping):
        return {text: _filled(inner, values) for key, inner in part.items() for text in _texts(key, values)}
    if isinstance(part, list):
        return [text for template in part for text in _texts(template, values)]
    return next(iter(_texts(part, values)), "")


def _texts(template: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """A text for each value of the list that it names."""
    names = re.findall(r"\{(\w+)\}", template)
    return [template.format(**dict(zip(names, each, strict=True))) for each in product(*(values[name] for name in names))]


def allow(actions: list[str], **limits: Any) -> Document:
    """A statement that allows actions; `limits` are its Resource and its Condition."""
    return {"Effect": "Allow", "Action": actions, **limits}


def document(statements: Iterable[Document]) -> Document:
    """A policy document."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


@cache
def role_actions() -> frozenset[str]:
    """Every action of a policy that the fleet gives a role."""
    return frozenset(row["action"] for row in rows("iam_role_policies.csv"))


def boundary(target: Target) -> Document:
    """The boundary of a stack. Some actions of a service have one pattern, because IAM limits the length.

    Raises FleetError if it is too long all the same.
    """
    short = {_SHORT.sub(r"\1*", action) for action in role_actions()}
    allowed = _statements(target, "boundary-", _TABLE["boundary-scopes"], short)
    return fitting(target, "boundary", document([*allowed, *_denied(target, "boundary-denies")]))
