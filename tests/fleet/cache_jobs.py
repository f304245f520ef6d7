"""Kinds of jobs that may want a build cache, and what its documents let each of them do, as `fleet.facts.iam` evaluates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fleet.facts.iam import allows
from fleet.providers.eks.build_caches import (
    AUDIENCE,
    ISSUER,
    RIGHTS,
    Document,
    bucket_policy,
    permissions,
    provider_arn,
    role_arn,
    trust,
)
from fleet.settings.build_caches import BuildCache

ACTIONS = {"read": "s3:GetObject", "list": "s3:ListBucket", "write": "s3:PutObject", "delete": "s3:DeleteObject"}
_EVERYTHING: Document = {"Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of job. `claims` are those of its OIDC token, by name; None if GitHub gives it no token.

    `inside` says whether it runs in the cluster's VPC. `admin`: it has credentials of a role with every right in S3.
    """

    what: str
    claims: Mapping[str, str] | None
    inside: bool = True
    tls: bool = True
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """A kind of job, and whether it can do each of `ACTIONS`."""

    job: Job
    can: Mapping[str, bool]


def jobs(cache: BuildCache) -> tuple[Job, ...]:
    """Every kind of job that the matrix has."""
    repository, ref, file = cache.repositories[0], cache.write_refs[0], cache.write_files[0]
    name = file.partition("/.github/")[0]
    main = {"aud": AUDIENCE, "sub": f"repo:{repository}:ref:{ref}", "job_workflow_ref": file}
    other_file = {"job_workflow_ref": f"{name}/.github/workflows/other.yml@{ref}"}

    def at(context: str, of: str = repository) -> dict[str, str]:
        return main | {"sub": f"repo:{of}:{context}", "job_workflow_ref": file.rpartition("@")[0] + "@" + context}

    proposed = at("pull_request") | {"job_workflow_ref": f"{file.rpartition('@')[0]}@refs/pull/1/merge"}
    calling = main | {"sub": f"repo:example/another:ref:{ref}"}
    return (
        Job("push to a write ref, a write workflow", main),
        Job("push to a write ref, a write workflow", main, inside=False),
        Job("push to a write ref, a write workflow, without TLS", main, tls=False),
        Job("push to a write ref, another workflow", main | other_file),
        Job("push to another branch", at("ref:refs/heads/feature")),
        Job("push to another branch", at("ref:refs/heads/feature"), inside=False),
        Job("merge queue", at("ref:refs/heads/gh-readonly-queue/main/pr-1")),
        Job("tag", at("ref:refs/tags/v1")),
        Job("pull request in the repository", proposed),
        Job("pull request in the repository", proposed, inside=False),
        Job("pull request from a fork", None),
        Job("pull request from a fork", None, inside=False),
        Job("pull request from a fork of a private repository that gives forks tokens", proposed),
        Job("pull_request_target, another workflow", main | other_file),
        Job("pull_request_target, a write workflow (never do this)", main),
        Job("another repository", at(f"ref:{ref}", "example/another")),
        Job("another repository, also a fork by itself", at(f"ref:{ref}", "example/another"), inside=False),
        Job("another repository that calls a write workflow", calling),
        Job("another repository that calls a write workflow", calling, inside=False),
        Job("a leaked token for another service", main | {"aud": "https://github.com/example"}, inside=False),
        Job("an admin role of the account", None, inside=False, admin=True),
    )


@dataclass(frozen=True, slots=True)
class Documents:
    """The policy documents of one cache. `trusts` and `permissions` are by right."""

    account: str
    bucket: str
    vpc: str
    policy: Document
    trusts: Mapping[str, Document] = field(default_factory=dict)
    permissions: Mapping[str, Document] = field(default_factory=dict)


def documents(account: str, bucket: str, cache: BuildCache, vpc: str) -> Documents:
    """The documents of a cache in the VPC of a cluster."""
    trusts = {right: trust(account, cache, right) for right in RIGHTS}
    allowed = {right: permissions(bucket, right) for right in RIGHTS}
    return Documents(account, bucket, vpc, bucket_policy(account, bucket, vpc), trusts, allowed)


def matrix(cache: BuildCache, of: Documents) -> list[Access]:
    """What each kind of job can do. A job tries every identity that it can get."""
    return [Access(job, {name: any(_can(job, of, action)) for name, action in ACTIONS.items()}) for job in jobs(cache)]


def _can(job: Job, of: Documents, action: str) -> Iterator[bool]:
    """For each identity that a job can get, whether it may do this."""
    arn = f"arn:aws:s3:::{of.bucket}"
    resource = arn if action == ACTIONS["list"] else f"{arn}/sccache/0/1"
    context = {"aws:SecureTransport": str(job.tls).lower()} | ({"aws:SourceVpc": of.vpc} if job.inside else {})
    identities: list[tuple[str | None, Document]] = [(None, {"Statement": []})]
    claims = {f"{ISSUER}:{name}": value for name, value in (job.claims or {}).items()}
    for right, document in of.trusts.items():
        federated = {"Federated": provider_arn(of.account)}
        if job.claims is not None and allows([document], "sts:AssumeRoleWithWebIdentity", None, claims, federated):
            identities.append((role_arn(of.account, of.bucket, right), of.permissions[right]))
    if job.admin:
        identities.append((f"arn:aws:iam::{of.account}:role/admin", _EVERYTHING))
    for principal, rights in identities:
        known = context | ({"aws:PrincipalArn": principal} if principal else {})
        yield allows([rights, of.policy], action, resource, known)
