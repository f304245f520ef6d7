"""The IAM and S3 policy documents of a build cache, as plain data."""

from typing import Any

from fleet.settings.build_caches import BuildCache

Document = dict[str, Any]

ISSUER = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
"""The audience that aws-actions/configure-aws-credentials asks for."""
RIGHTS = ("read", "write")
"""A cache has a role for each."""
CLOSED = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
"""What closes a bucket to the public."""
_READ = ["s3:GetObject", "s3:ListBucket"]
"""Without ListBucket S3 answers 403 for a missing object instead of 404 (S3 API, GetObject), and sccache does not start."""


def provider_arn(account: str) -> str:
    """ARN of GitHub's OIDC provider, which is the same in every account but for its number."""
    return f"arn:aws:iam::{account}:oidc-provider/{ISSUER}"


def role_arn(account: str, bucket: str, right: str) -> str:
    """ARN of the role with the right `read` or `write`."""
    return f"arn:aws:iam::{account}:role/{bucket}-{right}"


def trust(account: str, cache: BuildCache, right: str) -> Document:
    """The trust policy of a role.

    The claim `job_workflow_ref` names the workflow file. It keeps out `pull_request_target`, which may have the subject of main.
    AWS has a condition key for it since January 2026 (service authorization reference, AWS Security Token Service), and tokens of
    every job have it: PyPI's trusted publishing relies on that (pypi/warehouse, oidc/models/github.py).
    """
    claims: Document = {f"{ISSUER}:aud": AUDIENCE}
    if right == "write":
        claims |= {f"{ISSUER}:sub": cache.write_subjects, f"{ISSUER}:job_workflow_ref": cache.write_files}
    else:
        claims |= {f"{ISSUER}:sub": cache.read_subjects}
    principal = {"Federated": provider_arn(account)}
    actions = ["sts:AssumeRoleWithWebIdentity"]
    return _document({"Effect": "Allow", "Principal": principal, "Action": actions, "Condition": {"StringEquals": claims}})


def permissions(bucket: str, right: str) -> Document:
    """What a role may do."""
    actions = [*_READ, "s3:PutObject"] if right == "write" else _READ
    return _document({"Effect": "Allow", "Action": actions, "Resource": _resources(bucket)})


def bucket_policy(account: str, bucket: str, vpc: str) -> Document:
    """The policy of the bucket: TLS only, one writer, and reads without credentials from the cluster's VPC.

    S3 regards a policy with a fixed aws:SourceVpc as not public, so public access stays blocked (S3 API,
    PublicAccessBlockConfiguration). The key exists only in requests through a VPC endpoint.
    """
    everyone: Document = {"Principal": "*", "Resource": _resources(bucket)}
    not_writer = {"ArnNotEquals": {"aws:PrincipalArn": role_arn(account, bucket, "write")}}
    return _document(
        {"Effect": "Deny", "Action": ["s3:*"], **everyone, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
        {"Effect": "Deny", "Action": ["s3:PutObject*"], **everyone, "Condition": not_writer},
        {"Effect": "Allow", "Action": _READ, **everyone, "Condition": {"StringEquals": {"aws:SourceVpc": vpc}}},
    )


def _resources(bucket: str) -> list[str]:
    return [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]


def _document(*statements: Document) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}
