"""Build caches: S3 buckets that keep compiled objects for ccache and sccache in CI jobs.

Jobs write through GitHub's OIDC provider. Every job of the cluster's network reads without credentials, so that pull requests
from forks, which get no OIDC token, read too. `tests/fleet/cache_jobs.py` proves who can do what.
"""

import re
from typing import Annotated, Literal

from pydantic import Field

from fleet.settings.model import IN_ANY_ORDER, AccountId, Memory, Model
from fleet.settings.refusals import limited, matching

_BUCKET = matching("bucket_name", r"[a-z0-9][-a-z0-9]{1,56}[a-z0-9]")
BucketName = Annotated[str, _BUCKET, limited("aws:s3/bucket:Bucket", "bucket")]
"""S3 allows 63 characters. The roles are named after the bucket with `-write`, and an IAM role has at most 64."""
_SUBJECT = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}(/[A-Za-z0-9_.-]{1,100}|@[0-9]+/[A-Za-z0-9_.-]{1,100}@[0-9]+)"
CacheRepository = Annotated[str, matching("cache_repository", _SUBJECT)]
"""GitHub gives repositories that were created or renamed after 2026-07-15 a subject with ids (github/docs#45221)."""
WriteRef = Annotated[str, matching("write_ref", r"refs/(heads|tags)/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")]
WorkflowPath = Annotated[str, matching("write_workflow", r"\.github/workflows/[A-Za-z0-9_.-]+\.ya?ml")]
GitHubOwner = Annotated[str, matching("github_owner", r"[A-Za-z0-9][A-Za-z0-9-]{0,38}")]


class BuildCache(Model):
    """Who uses a bucket, and how long it keeps an object."""

    repositories: Annotated[tuple[CacheRepository, ...], Field(min_length=1)]
    """Repositories whose jobs use the cache, as owner/name."""
    write_workflows: Annotated[tuple[WorkflowPath, ...], Field(min_length=1), IN_ANY_ORDER]
    """Workflow files whose jobs write. Do not list a file that runs the code of pull requests."""
    write_refs: Annotated[tuple[WriteRef, ...], Field(min_length=1), IN_ANY_ORDER] = ("refs/heads/main",)
    """Branches and tags whose jobs write, as full refs. Example: `[refs/heads/main, refs/heads/release]`"""
    days: Annotated[int, Field(ge=1, le=365)] = 14
    """Age at which S3 deletes an object. Unit: days."""
    size: Memory
    """Expected size of the bucket for the worst case of the bill. S3 has no limit, so nothing enforces it."""

    @property
    def write_subjects(self) -> list[str]:
        """The `sub` claims that write."""
        return [f"repo:{repository}:ref:{ref}" for repository in sorted(self.repositories) for ref in self.write_refs]

    @property
    def write_files(self) -> list[str]:
        """The `job_workflow_ref` claims that write. This claim has no ids."""
        names = [re.sub("@[0-9]+", "", repository) for repository in sorted(self.repositories)]
        return [f"{name}/{path}@{ref}" for name in names for path in self.write_workflows for ref in self.write_refs]

    @property
    def read_subjects(self) -> list[str]:
        """The `sub` claims that read from outside of the cluster's network: pull requests inside a repository, and writers."""
        return [*(f"repo:{repository}:pull_request" for repository in sorted(self.repositories)), *self.write_subjects]


class BuildCaches(Model):
    """The build caches of a cluster, and the AWS account that has them."""

    account: AccountId
    """AWS account of the buckets, in quotes. `pulumi up` refuses to run in another one."""
    oidc_provider: Literal["create", "existing"]
    """GitHub's OIDC provider in IAM: `create` it, or use the `existing` one. An account has at most one."""
    owners: tuple[GitHubOwner, ...] = ()
    """GitHub owners of other repositories that may use the caches. Default: only the owner in `url` of `gpu-ci:github`. Example:
    `[acme-tools]`"""
    buckets: Annotated[dict[BucketName, BuildCache], Field(min_length=1)]
    """The buckets by name. A name is unique among all AWS accounts, so begin it with the name of your organization."""
